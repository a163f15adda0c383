"""Records of workers, their flows and wheels."""
