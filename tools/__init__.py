"""Programs for working on the project; nothing of it is installed."""
