"""Tests of flows, by the helper that users have for it."""
