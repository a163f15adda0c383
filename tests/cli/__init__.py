"""The commands as processes."""
