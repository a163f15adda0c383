"""Records of runs."""
