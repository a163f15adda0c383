"""Endpoints of hooks and workflow events."""
