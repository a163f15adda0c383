"""Error responses and shared responses."""
