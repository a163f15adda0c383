"""Settings and errors."""
