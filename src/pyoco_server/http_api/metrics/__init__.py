"""`GET /metrics`."""
