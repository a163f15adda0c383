"""The executors of a worker, without processes."""
