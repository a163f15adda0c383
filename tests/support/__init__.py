"""What several tests need: a real nats-server, and waiting for a condition with a limit."""
