"""A repository with a remote, and a coding CLI that does what a test tells it."""
