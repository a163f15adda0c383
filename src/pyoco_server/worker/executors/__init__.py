"""Executor processes and their template as the worker sees them, and which run each gets."""
