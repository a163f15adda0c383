"""The test suite: real parts (nats-server, HTTP, processes) wherever a part is cheap enough to be real."""
