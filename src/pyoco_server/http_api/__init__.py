"""The HTTP gateway: `create_app()` and one router per area."""

from pyoco_server.http_api.app import create_app

__all__ = ["create_app"]
