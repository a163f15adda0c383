"""`make bench-dashboard`: the dashboard in a real browser."""
