"""Logging, redaction and tracing."""
