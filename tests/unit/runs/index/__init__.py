"""Rules, texts and the index of runs."""
