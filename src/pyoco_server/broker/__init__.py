"""NATS: the connection, streams and buckets, stored records, the work queue, the embedded server."""
