"""The commands of `pyoco-client`, one module each."""
