"""Stored records of workers: their state, and the catalogues of their flows."""
