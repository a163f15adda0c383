"""Security headers of every response."""

from collections.abc import Awaitable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Everything on a page is from this gateway, and nothing is inline.
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
# A response of the API is not a page.
_DATA_POLICY: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

ALWAYS: Final = {
    "X-Content-Type-Options": "nosniff",
    # Addresses contain run ids.
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    # No page of another site embeds it.
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_RawHeaders = list[tuple[bytes, bytes]]


def _raw(policy: str) -> _RawHeaders:
    headers = {**ALWAYS, "Content-Security-Policy": policy}
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


_FOR_DATA: Final = _raw(_DATA_POLICY)
_FOR_PAGES: Final = _raw(_PAGE_POLICY)
_NO_STORE: Final = (b"cache-control", b"no-store")


class SecurityHeadersMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        is_page = path == "/" or path.startswith("/static/")

        # Not a coroutine: this is on the path of every response.
        def adding(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                headers: _RawHeaders = message["headers"]
                message["headers"] = [*headers, *(_FOR_PAGES if is_page else _FOR_DATA)]
                if b"cache-control" not in dict(headers):
                    message["headers"].append(_NO_STORE)
            return send(message)

        await self._app(scope, receive, adding)
