"""The sweep and retention."""
