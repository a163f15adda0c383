"""Endpoints of runs."""
