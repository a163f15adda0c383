"""Checking and storing the answer to a wait."""
