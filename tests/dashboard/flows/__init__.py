"""Agent requests in the dashboard."""
