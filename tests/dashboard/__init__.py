"""The dashboard in a real browser, against a real gateway, worker and NATS."""
