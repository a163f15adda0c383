"""Benchmarks: `make bench` beside other systems, `make bench-*` of the product alone."""
