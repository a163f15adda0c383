"""Counts and durations of requests, for the metrics."""

import time
from collections import Counter
from collections.abc import Awaitable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_server.http_api.metrics.metric_page import Distribution, MetricPage

_SECONDS = "pyoco_http_request_seconds"
_NO_ROUTE = "none"
# A client may send any word as method.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER_METHOD = "OTHER"


class RequestCounts:
    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: dict[str, Distribution] = {}

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests[method if method in _METHODS else _OTHER_METHOD, route, status] += 1
        values = self._seconds.get(route)
        if values is None:
            values = self._seconds[route] = Distribution(_SECONDS)
        values.add(seconds)

    def report_to(self, page: MetricPage) -> None:
        for (method, route, status), count in self._requests.items():
            page.put("pyoco_http_requests_total", count, method, route, str(status))
        for route, values in self._seconds.items():
            page.put_distribution(_SECONDS, values, route)


class RequestCountMiddleware:
    """Counts a response when it starts: an event stream may last for hours."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0

        # Not a coroutine: this is on the path of every response.
        def counting(message: Message) -> Awaitable[None]:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._count(scope, status, began)
            return send(message)

        try:
            await self._app(scope, receive, counting)
        except Exception:
            # The error handler outside sends a 500.
            if not status:
                self._count(scope, 500, began)
            raise

    def _count(self, scope: Scope, status: int, began: float) -> None:
        counts: RequestCounts = scope["app"].state.gateway.request_counts
        counts.add(scope["method"], _route_of(scope), status, time.perf_counter() - began)


def _route_of(scope: Scope) -> str:
    """The path of the route, not that of the request, which is unbounded."""
    route = scope.get("route")
    return _NO_ROUTE if route is None else str(route.path)
