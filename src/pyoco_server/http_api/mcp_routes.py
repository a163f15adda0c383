"""The tools for agents over HTTP: each call is a request to this gateway, with the key of its caller."""

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from pyoco_server.api.endpoints.system_endpoints import MCP
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.audit_recording import mark_mcp
from pyoco_server.http_api.middleware.rate_limits import mark_counted
from pyoco_server.http_api.requests.bodies import limited_body
from pyoco_server.http_api.routing import handles

if TYPE_CHECKING:
    from pyoco_server.mcp_tools.mcp_protocol import McpServer
    from pyoco_server.mcp_tools.tool_calls import HttpCall, HttpReply

# Of a message around the params of a run.
_ENVELOPE_BYTES: Final = 64 * 1024
# Headers of the message that say nothing about the request of a tool.
_OF_MESSAGE: Final = frozenset(
    {
        *(b"accept", b"content-length", b"content-type", b"transfer-encoding"),
        *(b"idempotency-key", b"last-event-id", b"range", b"if-range", b"if-none-match"),
    }
)
_JSON: Final = (b"content-type", b"application/json")
_COPIED: Final = ("type", "asgi", "http_version", "scheme", "server", "client", "root_path", "state")


@handles(MCP)
async def call_mcp(request: Request) -> Response:
    limit = gateway_of(request).config.max_run_snapshot_bytes + _ENVELOPE_BYTES
    body = await limited_body(
        request, limit, field="arguments", cure="pass a reference to large data instead of the data"
    )
    if not _server.cache_info().currsize:
        # In a thread: its imports take half a second.
        await asyncio.to_thread(_server)
    return _Exchange(body, limit)


class _Exchange(Response):
    """The response that the `mcp` package makes; stateless, so nothing outlives it."""

    def __init__(self, message: bytes, limit: int) -> None:
        super().__init__()
        self._message = message
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: PLC0415 - heavy

        exchange = StreamableHTTPSessionManager(
            _server(), json_response=True, stateless=True, max_request_body_size=self._limit
        )
        # As all endpoints do, it reads JSON whatever the request calls it.
        headers = [pair for pair in scope["headers"] if pair[0] != b"content-type"]
        scope = {**scope, "headers": [*headers, _JSON]}
        async with exchange.run():
            await exchange.handle_request(scope, _whole(self._message, receive), send)


@cache
def _server() -> "McpServer":
    from pyoco_server.mcp_tools.mcp_protocol import new_mcp_server  # noqa: PLC0415 - heavy

    return new_mcp_server(lambda ctx: _OwnApp(ctx.request))


class _OwnApp:
    """Sends requests to this app, through all its middleware, as the caller of the message."""

    def __init__(self, message: Request) -> None:
        self._message = message
        self.base_url = str(message.base_url).rstrip("/")

    async def send(self, call: "HttpCall") -> "HttpReply":
        from pyoco_server.mcp_tools.tool_calls import HttpReply  # noqa: PLC0415 - heavy

        received: list[Message] = []

        async def keep(message: Message) -> None:
            received.append(message)

        try:
            await self._message.app(self._scope(call), _whole(call.body or b"", self._message.receive), keep)
        except Exception:
            # An unexpected error is logged and answered with a 500 before it is raised again.
            if not received:
                raise
        start, *parts = received
        return HttpReply(
            status=start["status"],
            headers={str(name, "latin-1").lower(): str(value, "latin-1") for name, value in start["headers"]},
            body=b"".join(part.get("body", b"") for part in parts),
        )

    def _scope(self, call: "HttpCall") -> Scope:
        message = self._message.scope
        path, _, query = f"{message.get('root_path', '')}{call.target}".partition("?")
        headers = [pair for pair in message["headers"] if pair[0] not in _OF_MESSAGE]
        headers += [(name.lower().encode(), value.encode("latin-1")) for name, value in call.headers.items()]
        headers += [(b"accept", b"application/json"), _JSON]
        scope = {name: message[name] for name in _COPIED if name in message}
        mark_counted(scope)
        mark_mcp(scope)
        return {
            **scope,
            "method": call.endpoint.method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": headers,
        }


def _whole(body: bytes, then: Receive) -> Receive:
    """Receives a body that was read already, and then what comes after it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else await then()

    return receive
