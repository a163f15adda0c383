"""What every answer tells a browser not to do with it."""

from collections.abc import Awaitable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Nothing on our pages comes from anywhere else, and no script or style stands in the page itself.
_PAGE_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
# An answer of the API is no page: opened as one, it may do nothing.
_DATA_POLICY: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

ALWAYS: Final = {
    # It is what its Content-Type says: no guessing.
    "X-Content-Type-Options": "nosniff",
    # A run's id in an address is nobody else's business.
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    # No page of another site embeds it, or keeps a handle on our window.
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_RawHeaders = list[tuple[bytes, bytes]]


def _raw(policy: str) -> _RawHeaders:
    headers = {**ALWAYS, "Content-Security-Policy": policy}
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


_FOR_DATA: Final = _raw(_DATA_POLICY)
_FOR_PAGES: Final = _raw(_PAGE_POLICY)
_NOT_KEPT: Final = (b"cache-control", b"no-store")


class SecurityHeaders:
    """The middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        is_page = path == "/" or path.startswith("/static/")

        # No coroutine of its own: this is on the way of every answer.
        def adding(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                headers: _RawHeaders = message["headers"]
                message["headers"] = [*headers, *(_FOR_PAGES if is_page else _FOR_DATA)]
                # Runs are data of their owners: neither a browser nor a proxy keeps them, unless told so.
                if b"cache-control" not in dict(headers):
                    message["headers"].append(_NOT_KEPT)
            return send(message)

        await self._app(scope, receive, adding)
