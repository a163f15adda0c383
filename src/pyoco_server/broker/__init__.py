"""The only room that talks to NATS: connection, resources, records at rest, queue, embedded server."""
