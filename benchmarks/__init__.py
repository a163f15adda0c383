"""What the product costs, measured on this machine: `make bench`."""
