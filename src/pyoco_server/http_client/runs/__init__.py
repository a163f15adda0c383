"""Calls about runs."""
