"""Results of runs, with NATS."""
