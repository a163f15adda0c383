"""Endpoints of workers, their flows and wheels."""
