"""The catalogue of flows in a gateway: what live workers have, and checks of new runs against it."""
