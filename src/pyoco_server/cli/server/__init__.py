"""`pyoco-server up` and `pyoco-server dev`."""
