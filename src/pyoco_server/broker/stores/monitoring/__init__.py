"""Stores of what watches runs."""
