"""Messages between a worker and its executors."""
