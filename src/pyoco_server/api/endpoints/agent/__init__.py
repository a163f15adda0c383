"""Endpoints of agent requests."""
