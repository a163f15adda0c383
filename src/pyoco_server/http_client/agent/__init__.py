"""Calls about agent requests."""
