"""Commands of agent requests."""
