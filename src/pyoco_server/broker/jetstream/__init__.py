"""JetStream primitives: streams, key-value buckets, objects, leases, bucket feeds."""
