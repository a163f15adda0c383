"""Lists, watches, logs and the index."""
