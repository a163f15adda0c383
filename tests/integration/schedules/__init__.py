"""Schedules with a real NATS."""
