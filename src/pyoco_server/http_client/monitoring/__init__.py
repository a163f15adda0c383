"""Calls about what watches runs."""
