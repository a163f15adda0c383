"""The wheel registry."""
