"""Whether the simulated JetStream answers as a real nats-server does."""
