"""Executing a flow in this process."""
