"""The connection to NATS: client, requests, credentials, permissions."""
