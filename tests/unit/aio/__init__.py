"""Background loops and deadlines."""
