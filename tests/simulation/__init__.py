"""Deterministic simulation: gateways and workers of the real code in one process, with virtual time."""
