"""The connection to NATS: client, requests, subscriptions, credentials."""
