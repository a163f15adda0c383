"""Parts of the gateway without a gateway."""
