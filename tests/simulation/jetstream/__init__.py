"""A simulated NATS server with JetStream, as far as pyoco-server uses it."""
