"""Screens about the system rather than about one run."""
