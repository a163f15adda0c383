"""Tests that need no NATS server and start no process: seconds in all."""
