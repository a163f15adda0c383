"""The tools for agents (Model Context Protocol)."""
