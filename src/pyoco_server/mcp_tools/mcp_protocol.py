"""The MCP server of both transports, with the official `mcp` package.

Import it when it is needed: that takes half a second and 27 MB.
"""

import json
import logging
from collections.abc import Callable
from typing import Any

from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ListedTool

from pyoco_server.errors import PyocoError
from pyoco_server.mcp_tools import tool_results as results
from pyoco_server.mcp_tools.bounded_values import ValueTooLarge
from pyoco_server.mcp_tools.tool_calls import KEY_CALL, GatewayLink, HttpCall, http_call
from pyoco_server.mcp_tools.tool_schemas import input_schema, output_schema
from pyoco_server.mcp_tools.tool_table import INSTRUCTIONS, TOOLS, Tool
from pyoco_server.runs.flow_yaml import did_you_mean
from pyoco_server.version import __version__

log = logging.getLogger(__name__)

# The context of a request of the `mcp` package.
Context = Any
McpServer = Server[Any]


def new_mcp_server(link_of: Callable[[Context], GatewayLink]) -> McpServer:
    """`link_of` returns the connection to the gateway for a request, with the key of its caller."""

    async def list_tools(ctx: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_listed(tool) for tool in await _allowed_tools(link_of(ctx))])

    async def call_tool(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            hint = did_you_mean(params.name, list(TOOLS))
            raise MCPError(INVALID_PARAMS, f"unknown tool {params.name!r}{hint}")
        return await tool_result(tool, params.arguments or {}, link_of(ctx))

    # Its start and its stop are worth no line of the log.
    logging.getLogger("mcp").setLevel(logging.WARNING)
    server: McpServer = Server(
        "pyoco-server",
        version=__version__,
        title="pyoco-server",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=lambda name: input_schema(name) if name in TOOLS else None,
    )
    # Traces are of runs, not of requests.
    server.middleware.clear()
    return server


async def _allowed_tools(link: GatewayLink) -> list[Tool]:
    """Those whose endpoints the key of the caller may use, and the gateway has."""
    try:
        reply = await link.send(KEY_CALL)
    except PyocoError as error:
        # A host of agents lists the tools once: when the gateway is back they work.
        log.warning("all tools are listed, since the gateway does not say which are allowed: %s", error)
        return list(TOOLS.values())
    if not reply.ok:
        raise MCPError(INTERNAL_ERROR, results.failure_text(reply))
    try:
        key = results.record_in(reply, KEY_CALL, link.base_url).value
    except results.NotFromGateway:
        raise MCPError(INTERNAL_ERROR, results.not_from_gateway_text(link.base_url)) from None
    routes = frozenset(key["endpoints"])
    return [tool for tool in TOOLS.values() if tool.endpoint.route in routes]


def _listed(tool: Tool) -> ListedTool:
    return ListedTool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=input_schema(tool.name),
        output_schema=output_schema(tool.name),
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent or tool.read_only,
            # A flow may do anything; nothing else leaves this server.
            open_world_hint=bool(tool.endpoint.creates),
        ),
    )


async def tool_result(tool: Tool, arguments: dict[str, Any], link: GatewayLink) -> CallToolResult:
    try:
        call = http_call(
            tool.endpoint, tool.arguments, arguments, complete=tool.complete, headers=tool.headers
        )
        return await _answer(tool, call, link)
    except PyocoError as error:
        return _failed(results.error_text(error))
    except results.NotFromGateway:
        return _failed(results.not_from_gateway_text(link.base_url))


async def _answer(tool: Tool, asked: HttpCall, link: GatewayLink) -> CallToolResult:
    call, reply = asked, await link.send(asked)
    while tool.page_of and reply.ok and (smaller := results.smaller_page(reply, call, tool.page_of)):
        call, reply = smaller, await link.send(smaller)
    if not (reply.ok or results.is_empty(reply)):
        return _failed(results.failure_text(reply), untrusted=results.is_quoting(reply))
    url = link.base_url + call.target
    notes = [results.UNTRUSTED] if tool.untrusted else []
    notes += results.notes_of(reply)
    if call is not asked:
        notes.append(results.FEWER)
    try:
        value = results.shown(
            tool.read(reply, call, url), array=tool.array, without=tool.without, notes=notes, url=url
        )
    except ValueTooLarge:
        return _failed(results.too_large_text(url))
    text = json.dumps(value, ensure_ascii=False)
    return CallToolResult(content=[TextContent(text=text)], structured_content=value)


def _failed(text: str, *, untrusted: bool = False) -> CallToolResult:
    shown = f"{results.UNTRUSTED}\n{text}" if untrusted else text
    return CallToolResult(content=[TextContent(text=shown)], is_error=True)
