"""Calls about workers, their flows and wheels."""
