"""Commands of runs and dead letters."""
