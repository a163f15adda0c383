"""Commands of flows."""
