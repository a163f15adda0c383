"""The protocol and the channels between a worker and its executor processes."""
