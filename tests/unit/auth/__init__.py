"""Unit tests of API keys."""
