"""Logs, redaction, fast paths."""
