"""Stored hooks, templates and actions, and what became of what they received."""
