"""What is stored in JetStream, one module per kind of record."""
