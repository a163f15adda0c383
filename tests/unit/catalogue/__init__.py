"""The catalogue of flows in a gateway."""
