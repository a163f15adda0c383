"""The commands: pyoco-server, pyoco-worker, pyoco-client."""
