"""Files of runs: stored, restored, listed and downloaded."""
