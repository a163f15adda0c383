"""Decoding of stored records."""
