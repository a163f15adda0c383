"""The client library against a server that is not a gateway."""
