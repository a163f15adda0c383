"""The commands of results."""
