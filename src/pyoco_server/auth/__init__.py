"""Who may do what: API keys, their scopes, and what a gateway knows about them."""
