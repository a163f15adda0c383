"""`pyoco-client mcp`: the tools for agents on standard input and output."""

import asyncio
from contextlib import suppress

import httpx
import typer

from pyoco_server.cli.lazy_group import examples
from pyoco_server.cli.options.client_options import new_client
from pyoco_server.cli.options.shared_options import ApiKey, Server
from pyoco_server.http_client import AsyncPyocoHttpClient, PyocoHttpError
from pyoco_server.http_client.call_types import Request
from pyoco_server.mcp_tools.tool_calls import HttpCall, HttpReply


@examples("pyoco-client mcp", "pyoco-client mcp --server http://127.0.0.1:8000")
def mcp(ctx: typer.Context, server: Server = None, api_key: ApiKey = None) -> None:
    link = new_client(_Gateway, ctx, server, api_key, program="pyoco-client-mcp")
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(link))


async def _serve(link: "_Gateway") -> None:
    # Imported here: `--help` needs none of it.
    from mcp.server.stdio import stdio_server  # noqa: PLC0415

    from pyoco_server.mcp_tools.mcp_protocol import new_mcp_server  # noqa: PLC0415

    tools = new_mcp_server(lambda _: link)
    async with link, stdio_server() as (incoming, outgoing):
        await tools.run(incoming, outgoing, tools.create_initialization_options())


class _Gateway(AsyncPyocoHttpClient):
    """Sends the requests of tools, with the retries of the client."""

    async def send(self, call: HttpCall) -> HttpReply:
        endpoint = call.endpoint
        request: Request[HttpReply] = Request(
            method=endpoint.method,
            path=call.path,
            query=call.query,
            content=call.body,
            headers={**call.headers, "Content-Type": "application/json"},
            read=_reply_of,
            repeatable=endpoint.method == "GET" or endpoint.repeatable or bool(endpoint.creates),
            submits=bool(endpoint.creates),
        )
        try:
            return await self._send(request)
        except PyocoHttpError as error:
            return _reply_of(error.response)


def _reply_of(response: httpx.Response) -> HttpReply:
    return HttpReply(status=response.status_code, headers=response.headers, body=response.content)
