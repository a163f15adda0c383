"""Stored records of waits, signals and events."""
