"""What `/openapi.json` tells: one module for each area of the API."""

from pyoco_server.http_api.openapi.document import describe

__all__ = ["describe"]
