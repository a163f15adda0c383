"""One module of endpoints per area."""
