"""Waits of runs: what a run waits for while it is parked, and how it continues."""
