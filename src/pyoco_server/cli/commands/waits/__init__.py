"""Commands about waits, signals and events."""
