"""What `/openapi.json` tells: one module for each area of the API."""

from .document import describe

__all__ = ["describe"]
