"""The measurements of the product alone: `make bench-index`, `-watch`, `-waits`, `-auth`, `-outage`."""
