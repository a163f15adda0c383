"""Records of agent requests."""
