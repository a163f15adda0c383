"""The coding CLI: how it is called, what it prints, and how it is ended."""
