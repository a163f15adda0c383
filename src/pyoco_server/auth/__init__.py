"""API keys: tokens, scopes, administration and the cache of the gateway."""
