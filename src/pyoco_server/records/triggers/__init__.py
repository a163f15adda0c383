"""Records of hooks and workflow events."""
