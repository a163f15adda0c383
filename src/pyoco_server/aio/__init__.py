"""The event loop and its process: background loops, deadlines, backoff, garbage collection."""
