"""Binds handlers to the table of endpoints, and finds the endpoint of a request."""

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any, Final, TypeVar

from fastapi import APIRouter, FastAPI
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Scope

from pyoco_server.api.endpoints.endpoint import Endpoint
from pyoco_server.api.endpoints.endpoint_table import ENDPOINTS
from pyoco_server.api.endpoints.system_endpoints import OPENAPI

Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Response]])

_HANDLERS: Final[dict[Endpoint, Callable[..., Awaitable[Response]]]] = {}
# FastAPI's own handling of a request costs three times what msgspec takes for the record of a submit.
_PLAIN: Final[set[Endpoint]] = set()


def handles(endpoint: Endpoint, *, plain: bool = False) -> Callable[[Handler], Handler]:
    """The decorated function handles the endpoint; a plain one takes the request only, without FastAPI."""

    def bind(handler: Handler) -> Handler:
        _HANDLERS[endpoint] = handler
        if plain:
            _PLAIN.add(endpoint)
        return handler

    return bind


def add_routes(app: FastAPI) -> None:
    """A route for each endpoint of the table, in its order. FastAPI itself serves the OpenAPI document."""
    app.routes.extend(_routes())


@cache
def _routes() -> Sequence[BaseRoute]:
    """The same ones for every app of a process: they take most of the time of making one."""
    router = APIRouter()
    for endpoint in ENDPOINTS:
        if endpoint is OPENAPI:
            continue
        handler: Any = _HANDLERS[endpoint]
        if endpoint in _PLAIN:
            router.add_route(endpoint.routed_path, handler, methods=[endpoint.method])
            continue
        router.add_api_route(
            endpoint.routed_path,
            handler,
            methods=[endpoint.method],
            response_class=Response,
            response_model=None,
            description=endpoint.summary,
        )
        if endpoint.head:
            router.add_api_route(
                endpoint.routed_path, handler, methods=["HEAD"], response_model=None, include_in_schema=False
            )
    return router.routes


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
