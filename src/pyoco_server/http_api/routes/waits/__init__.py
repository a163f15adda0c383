"""Routes of waits, signals and events."""
