"""HTTP: errors, limits, metrics, clients."""
