"""Records of schedules."""
