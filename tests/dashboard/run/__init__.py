"""Tests of the page of one run, and what they share."""
