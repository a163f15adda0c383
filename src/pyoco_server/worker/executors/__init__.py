"""Executors as the worker sees them, and the protocol between both."""
