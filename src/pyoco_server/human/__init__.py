"""Waits for people: what a task asks, and what answers it."""
