"""The space that NATS has: whether it can write, and how much is left."""
