"""Which runs match a filter, and how SQLite finds them."""
