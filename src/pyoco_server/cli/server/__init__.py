"""`pyoco-server up`, `pyoco-server dev` and `pyoco-server agent`."""
