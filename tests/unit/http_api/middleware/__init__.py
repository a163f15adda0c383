"""Unit tests of the middleware."""
