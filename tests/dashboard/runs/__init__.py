"""The list of runs and its views, in a real browser."""
