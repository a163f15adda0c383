"""Rules of agent requests."""
