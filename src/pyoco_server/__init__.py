"""pyoco-server: durable runs of Pyoco flows over HTTP and NATS JetStream."""

__version__ = "0.1.0"
