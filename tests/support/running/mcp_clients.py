"""Clients of the official `mcp` package, over both transports.

The package is imported where it is used: that takes half a second, and each test process collects all tests.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from jsonschema import Draft7Validator

from pyoco_server.mcp_tools.tool_schemas import output_schema
from tests.support.forks.fork_server import stand_ins
from tests.support.ports import port_to_keep
from tests.support.programs import environment
from tests.support.running.gateway import RunningGateway
from tests.support.waiting import LIMIT_SEC

if TYPE_CHECKING:
    from mcp import Client, ClientSession

# The newest protocol with a handshake, and the one without.
LEGACY, MODERN = "legacy", "2026-07-28"


def url_of(gateway: RunningGateway) -> str:
    return str(gateway.http.base_url).rstrip("/")


def key_of(gateway: RunningGateway) -> str | None:
    key: str | None = gateway.http.headers.get("X-API-Key")
    return key


@asynccontextmanager
async def over_http(gateway: RunningGateway, mode: str = LEGACY) -> AsyncIterator["Client"]:
    """With the key of the gateway's client, if it has one."""
    import httpx2  # noqa: PLC0415
    from mcp import Client  # noqa: PLC0415
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    key = key_of(gateway)
    headers = {"X-API-Key": key} if key else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=LIMIT_SEC, verify=False, trust_env=False) as http,
        Client(streamable_http_client(f"{url_of(gateway)}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@asynccontextmanager
async def over_stdio(gateway: RunningGateway) -> AsyncIterator["ClientSession"]:
    """`pyoco-client mcp` with the key of the gateway's client, if it has one."""
    settings = {"PYOCO_SERVER": url_of(gateway), "PYOCO_API_KEY": key_of(gateway) or ""}
    async with _program(settings) as session:
        yield session


@asynccontextmanager
async def without_gateway() -> AsyncIterator["ClientSession"]:
    """`pyoco-client mcp` for a gateway that is not there."""
    settings = {"PYOCO_SERVER": f"http://127.0.0.1:{port_to_keep()}"}
    async with _program(settings) as session:
        yield session


@asynccontextmanager
async def _program(settings: dict[str, str]) -> AsyncIterator["ClientSession"]:
    from mcp import ClientSession, StdioServerParameters, stdio_client  # noqa: PLC0415

    command = StdioServerParameters(
        command=str(stand_ins() / "pyoco-client"), args=["mcp"], env=environment(**settings)
    )
    async with stdio_client(command) as streams, ClientSession(*streams) as session:
        await session.initialize()
        yield session


async def called(client: "Client | ClientSession", tool: str, **arguments: Any) -> dict[str, Any]:
    """The result of a tool; the client has checked it against its schema."""
    from mcp_types import CallToolResult  # noqa: PLC0415

    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    # As the official client for TypeScript reads it.
    Draft7Validator(output_schema(tool)).validate(result.structured_content)
    return result.structured_content


async def refused(client: "Client | ClientSession", tool: str, **arguments: Any) -> str:
    """The text of a tool's error."""
    from mcp_types import CallToolResult  # noqa: PLC0415

    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    assert result.is_error
    assert result.structured_content is None
    [text] = result.content
    assert text.type == "text"
    return text.text
