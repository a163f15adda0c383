"""Stored records of runs."""
