"""Endpoints of waits, signals and events."""
