"""A real nats-server, and what tests put into its streams and buckets."""
