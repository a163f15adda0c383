"""Records of waits, signals and events."""
