"""The broker, without NATS."""
