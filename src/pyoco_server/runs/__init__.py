"""What can be decided about a run, without HTTP and without executing it."""
