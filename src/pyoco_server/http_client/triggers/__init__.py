"""Calls about hooks and workflow events."""
