"""Telling an outside system about waits."""
