"""Calls the most used endpoint without the routing of the framework, which costs more than the endpoint.

It notes the endpoint for the request counts and handles errors, as the framework does. The endpoint is also a
route of the app.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_server.api.endpoints.runs.run_endpoints import SUBMIT_RUN
from pyoco_server.errors import PyocoError
from pyoco_server.http_api.responses.http_problems import client_disconnected, problem_response

_METHOD: Final = SUBMIT_RUN.method
_PATH: Final = SUBMIT_RUN.path

Handler = Callable[[Request], Awaitable[Response]]


class SubmitFastPath:
    """The innermost middleware, so that no other one is skipped."""

    def __init__(self, app: ASGIApp, *, handler: Handler) -> None:
        self._app = app
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != _PATH or scope["method"] != _METHOD:
            await self._app(scope, receive, send)
            return
        scope["route"] = SUBMIT_RUN
        request = Request(scope, receive)
        try:
            response = await self._handler(request)
        except PyocoError as error:
            response = problem_response(request, error)
        except ClientDisconnect:
            response = client_disconnected(request)
        await response(scope, receive, send)
