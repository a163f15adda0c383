"""The public package pyoco-server 0.5.1 from PyPI, and the NATS data that it leaves."""
