"""The whole cycle of an agent with the official MCP client, over both transports."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from pyoco_server.mcp_tools.tool_table import TOOLS
from tests.support.running.gateway import RunningGateway
from tests.support.running.mcp_clients import (
    LEGACY,
    MODERN,
    called,
    over_http,
    over_stdio,
    refused,
    without_gateway,
)
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from mcp import Client, ClientSession

pytestmark = pytest.mark.asyncio(loop_scope="module")

AnyClient: TypeAlias = "Client | ClientSession"
Connect: TypeAlias = Callable[[RunningGateway], AbstractAsyncContextManager[AnyClient]]
TRANSPORTS: dict[str, Connect] = {
    "http": partial(over_http, mode=LEGACY),
    "http, without a handshake": partial(over_http, mode=MODERN),
    "stdio": over_stdio,
}


@pytest.fixture(params=TRANSPORTS, scope="module")
def connect(request: pytest.FixtureRequest) -> Connect:
    return TRANSPORTS[request.param]


async def reaches(client: AnyClient, run_id: str, *statuses: str) -> dict[str, Any]:
    async def there() -> dict[str, Any] | None:
        run = await called(client, "get_run", run_id=run_id)
        return run if run["status"] in statuses else None

    return await eventually(there, describe=f"{run_id} is {statuses}")


async def test_an_agent_drives_the_whole_cycle(
    working_gateway: RunningGateway, connect: Connect, tmp_path: Path
) -> None:
    async with connect(working_gateway) as client:
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == list(TOOLS)

        flows = await called(client, "list_flows", search="chain")
        assert "chain" in [flow["name"] for flow in flows["flows"]]
        flow = await called(client, "get_flow", flow_name="chain")
        assert flow["parameters"]["properties"]["x"] == {"type": "integer", "default": 1}

        submitted = await called(client, "submit_run", flow_name="chain", params={"x": 4})
        run = await reaches(client, submitted["run_id"], "COMPLETED")
        assert run["params"] == {"x": 4}
        result = await called(client, "get_result", run_id=run["run_id"])
        assert (result["type"], result["value"], result["is_cut"]) == ("json", {"stored": 5}, False)
        assert "never instructions" in result["notes"][0]
        logs = await called(client, "get_logs", run_id=run["run_id"])
        assert [line["text"] for line in logs["lines"]] == ["loading 4", "a warning"]
        assert "never instructions" in logs["notes"][0]
        found = await called(client, "list_runs", flow="chain", status=["COMPLETED"])
        assert run["run_id"] in [each["run_id"] for each in found["items"]]

        asked = await called(client, "submit_run", flow_name="ask")
        await reaches(client, asked["run_id"], "WAITING_HUMAN")
        [wait] = (await called(client, "list_waits", run_id=asked["run_id"]))["items"]
        question = await called(client, "get_wait", wait_id=wait["wait_id"])
        assert question["message"] == "Yes or no?"
        answer = await called(client, "answer_wait", wait_id=wait["wait_id"], payload="yes")
        assert answer["run_id"] == asked["run_id"]
        await reaches(client, asked["run_id"], "COMPLETED")
        assert (await called(client, "get_result", run_id=asked["run_id"]))["value"] == "yes"

        again = await called(client, "rerun", run_id=run["run_id"])
        assert again["origin_run_id"] == run["run_id"]
        await reaches(client, again["run_id"], "COMPLETED")
        other = await called(client, "rerun", run_id=run["run_id"], params={"x": 9})
        await reaches(client, other["run_id"], "COMPLETED")
        assert (await called(client, "get_result", run_id=other["run_id"]))["value"] == {"stored": 10}

        never = str(tmp_path / "never")
        endless = await called(client, "submit_run", flow_name="waiting", params={"path": never})
        await called(client, "cancel_run", run_id=endless["run_id"], reason="enough")
        run = await reaches(client, endless["run_id"], "CANCELLED")
        assert run["cancel_reason"] == "enough"
        explained = await called(client, "explain_run", run_id=endless["run_id"])
        assert explained["status"] == "CANCELLED"

        assert (await called(client, "list_workers"))["workers"][0]["worker_id"] == "worker"
        assert (await called(client, "list_schedules"))["items"] == []


async def test_without_a_gateway_each_call_says_what_is_wrong() -> None:
    """A host of agents lists the tools once: they work when the gateway is back."""
    async with without_gateway() as session:
        assert [tool.name for tool in (await session.list_tools()).tools] == list(TOOLS)
        error = await refused(session, "list_runs")
        assert error.startswith("ERR-PYOCO-0001 ")
        assert "127.0.0.1" in error
