"""Routes of what watches runs."""
