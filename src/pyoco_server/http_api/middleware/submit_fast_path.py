"""The short way to the endpoint that is called most: past the framework's routing, which costs more than it.

What the framework would do there is done here: the endpoint is noted for the count of requests, and an error
that has an answer is answered. The endpoint is a route of the app as well, for all that looks at routes.
"""

from collections.abc import Awaitable, Callable

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_server.errors import PyocoError
from pyoco_server.http_api.responses.http_problems import client_gone, problem_answer

Endpoint = Callable[[Request], Awaitable[Response]]


class ShortWay:
    """The middleware; the innermost one, so that nothing that guards the app is left out."""

    def __init__(self, app: ASGIApp, *, method: str, path: str, endpoint: Endpoint) -> None:
        self._app = app
        self._method = method
        self._path = path
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != self._path or scope["method"] != self._method:
            await self._app(scope, receive, send)
            return
        scope["endpoint"] = self._endpoint
        request = Request(scope, receive)
        try:
            answer = await self._endpoint(request)
        except PyocoError as error:
            answer = problem_answer(request, error)
        except ClientDisconnect:
            answer = client_gone(request)
        await answer(scope, receive, send)
