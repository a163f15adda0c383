"""Commands about agent requests."""
