"""Programs of tests as forks of a preloaded process."""
