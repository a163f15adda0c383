"""Commands of what watches runs."""
