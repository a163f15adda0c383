"""The catalogue of flows, with a real NATS."""
