"""Attacks: what a caller, a flow or a worker must not be able to do, one module per attack surface."""
