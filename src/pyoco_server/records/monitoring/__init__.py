"""Records of what watches runs: alerts."""
