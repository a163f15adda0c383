"""Refusing a request before it reaches the app, also the handshake of a WebSocket."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from pyoco_server.agent.agent_errors import AgentError
from pyoco_server.errors import PyocoError
from pyoco_server.http_api.responses.http_problems import agent_error_response, problem_response


async def refuse(error: PyocoError, scope: Scope, receive: Receive, send: Send) -> None:
    await send_response(refusal(error, request_in(scope, receive)), scope, receive, send)


def refusal(error: PyocoError | AgentError, request: Request) -> Response:
    if isinstance(error, AgentError):
        return agent_error_response(request, error)
    return problem_response(request, error)


async def send_response(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await WebSocket(scope, receive, send).send_denial_response(response)
    else:
        await response(scope, receive, send)


def request_in(scope: Scope, receive: Receive) -> Request:
    """The request; the handshake of a WebSocket as the GET that it is."""
    if scope["type"] == "websocket":
        scope = {**scope, "type": "http", "method": "GET"}
    return Request(scope, receive)
