"""Routes of agent requests."""
