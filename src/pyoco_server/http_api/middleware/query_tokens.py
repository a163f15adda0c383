"""Hides tokens of queries from the ASGI server, which may write the query to its access log."""

from typing import Final
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Receive, Scope, Send

_REDACTED: Final = b"[redacted]"


class QueryTokenMiddleware:
    """Wraps every other one. The app gets the query as it came, in a scope of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        query: bytes = scope.get("query_string", b"")
        if query:
            inner = dict(scope)
            scope["query_string"] = without_tokens(query)
            scope = inner
        await self._app(scope, receive, send)


def without_tokens(query: bytes) -> bytes:
    return b"&".join(map(_visible, query.split(b"&")))


def _visible(pair: bytes) -> bytes:
    name, equals, _ = pair.partition(b"=")
    is_token = unquote_to_bytes(name.replace(b"+", b" ")).strip() == b"token"
    return name + equals + _REDACTED if is_token and equals else pair
