"""Results of runs, without NATS."""
