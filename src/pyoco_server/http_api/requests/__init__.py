"""Parsing requests: bodies, queries, headers, forms."""
