"""The records in JetStream, one module per kind."""
