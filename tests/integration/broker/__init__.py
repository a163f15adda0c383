"""Connection, streams, buckets, rights."""
