"""API keys and tenants."""
