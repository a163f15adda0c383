"""Bulk operations on runs and dead letters."""
