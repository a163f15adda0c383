"""Signals to runs and events for all runs: sending them, and the waits that they answer."""
