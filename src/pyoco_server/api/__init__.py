"""The HTTP contract, for gateway and client: every endpoint, and what it takes and returns."""
