"""The audit log with a real NATS."""
