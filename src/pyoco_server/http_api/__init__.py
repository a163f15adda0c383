"""The HTTP gateway: `create_app()`.

It is imported on first use, so that parts of this package can be imported without Starlette.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyoco_server.http_api.app import create_app

__all__ = ["create_app"]


def __getattr__(name: str) -> object:
    if name == "create_app":
        from pyoco_server.http_api.app import create_app  # noqa: PLC0415

        return create_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
