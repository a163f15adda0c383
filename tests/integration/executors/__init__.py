"""Executor processes."""
