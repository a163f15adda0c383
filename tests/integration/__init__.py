"""Against a real nats-server, gateway and worker."""
