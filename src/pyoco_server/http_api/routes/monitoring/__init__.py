"""Routes for people who operate the server: statistics and alerts."""
