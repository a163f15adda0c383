"""Signals and events, without NATS."""
