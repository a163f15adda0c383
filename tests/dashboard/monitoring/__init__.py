"""Screens of what watches runs."""
