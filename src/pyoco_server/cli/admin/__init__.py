"""`pyoco-server-admin`."""
