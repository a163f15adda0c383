"""Stores of what is observed about the system rather than about one run."""
