"""Endpoints that serve files."""
