"""`pyoco-client flows`: what can be run, and running it."""
