"""Signals and events, with NATS."""
