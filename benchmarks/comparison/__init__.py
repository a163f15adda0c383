"""The measurements of `make bench`, of each peer and of the product alone."""
