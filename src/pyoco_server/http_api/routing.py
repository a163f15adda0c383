"""Binds handlers to the table of endpoints, and finds the endpoint of a request."""

import re
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from pyoco_server.api.endpoints.endpoint import Endpoint
from pyoco_server.api.endpoints.endpoint_table import ENDPOINTS
from pyoco_server.http_api.requests.query import refuse_parameters

Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Response]])

_HANDLERS: Final[dict[Endpoint, Callable[..., Awaitable[Response]]]] = {}


def handles(endpoint: Endpoint) -> Callable[[Handler], Handler]:
    """The decorated function handles the endpoint: it takes the request, and the parameters of its path."""

    def bind(handler: Handler) -> Handler:
        _HANDLERS[endpoint] = handler
        return handler

    return bind


class EndpointRoute(Route):
    """The route of an endpoint. It notes itself in the scope, for the counts of requests."""

    def __init__(self, endpoint: Endpoint) -> None:
        handler = _HANDLERS[endpoint]

        async def serve(request: Request) -> Response:
            if endpoint.refuses_query and request.scope["query_string"]:
                refuse_parameters(request)
            return await handler(request, **request.path_params)

        super().__init__(endpoint.routed_path, serve, methods=[endpoint.method])
        # Starlette adds HEAD to every GET.
        self.methods = {endpoint.method, "HEAD"} if endpoint.head else {endpoint.method}

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child_scope = super().matches(scope)
        return match, {**child_scope, "route": self}


@cache
def routes() -> tuple[BaseRoute, ...]:
    """A route for each endpoint of the table, in its order. They keep nothing of an app: apps share them."""
    return tuple(EndpointRoute(endpoint) for endpoint in ENDPOINTS)


def handler_name(endpoint: Endpoint) -> str:
    return _HANDLERS[endpoint].__name__


_FIXED: Final = {(each.method, each.path): each for each in ENDPOINTS if "{" not in each.path}


def _pattern(path: str) -> re.Pattern[str]:
    text = re.sub(r"\\{\w+(:path)?\\}", lambda found: ".*" if found[1] else "[^/]+", re.escape(path))
    return re.compile(text, re.DOTALL)


_PATTERNS: Final = [(_pattern(each.routed_path), each) for each in ENDPOINTS if "{" in each.path]


def route_path(scope: Scope) -> str:
    """The path of a request without the path that the app is mounted at."""
    path: str = scope["path"]
    root_path: str = scope.get("root_path", "")
    if root_path and (path == root_path or path.startswith(f"{root_path}/")):
        return path.removeprefix(root_path)
    return path


def method_of(scope: Scope) -> str:
    """The handshake of a WebSocket is a GET."""
    method: str = "GET" if scope["type"] == "websocket" else scope["method"]
    return method


def find_endpoint(method: str, path: str) -> Endpoint | None:
    if method == "HEAD":
        method = "GET"
    endpoint = _FIXED.get((method, path))
    if endpoint is not None:
        return endpoint
    found = (each for pattern, each in _PATTERNS if each.method == method and pattern.fullmatch(path))
    return next(found, None)


def allowed_methods(path: str) -> list[str]:
    """The methods of a path, for the header `Allow`; none: there is no such path."""
    # `/runs/yaml` is a path of its own, although `/runs/{run_id}` matches it too.
    fixed = [each for each in _FIXED.values() if each.path == path]
    endpoints = fixed or [each for pattern, each in _PATTERNS if pattern.fullmatch(path)]
    return sorted({each.method for each in endpoints} | {"HEAD" for each in endpoints if each.head})
