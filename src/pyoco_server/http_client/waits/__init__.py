"""Calls about waits, signals and events."""
