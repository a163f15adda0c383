"""Commands about the system rather than about one run."""
