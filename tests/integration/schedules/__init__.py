"""Schedules with a real NATS: the store, the endpoints, and what starts."""
