"""The records that are stored in JetStream and sent over HTTP."""
