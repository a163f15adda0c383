"""Unit tests of the tools for agents."""
