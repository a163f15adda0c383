"""Waits for people."""
