"""Unit tests of wheels."""
