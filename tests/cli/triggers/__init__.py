"""Workflow events and hooks."""
