"""Where the flows of a worker come from."""
