"""Faults: processes killed at a chosen point, and the chaos harness."""
