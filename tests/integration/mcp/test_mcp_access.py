"""Tools follow the scopes of the key, and tenants hold."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from pyoco_server.auth.scopes import Scope
from pyoco_server.config import NatsBackendConfig
from pyoco_server.mcp_tools.tool_table import TOOLS
from tests.support.running.api_keys import new_key, without_background_refreshes
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.mcp_clients import called, over_http, over_stdio, refused
from tests.support.running.tenants import PEPPER, Tenant, a_key
from tests.support.running.workers import serving_worker

if TYPE_CHECKING:
    from mcp import Client

pytestmark = pytest.mark.asyncio(loop_scope="module")

READERS = {"list_runs", "get_run", "explain_run", "get_logs", "list_waits", "get_wait", "list_workers"}
READERS |= {"list_schedules", "list_flows", "get_flow", "get_result"}
TOOLS_OF = {
    (Scope.READ,): READERS,
    (Scope.SUBMIT,): {"submit_run"},
    (Scope.ANSWER,): {"list_waits", "get_wait", "answer_wait"},
    (Scope.OPERATE,): {"cancel_run", "rerun", "list_waits", "get_wait", "list_workers"},
    (Scope.SUBMIT, Scope.READ, Scope.OPERATE): set(TOOLS) - {"answer_wait"},
    (Scope.ANSWER, Scope.READ): {*READERS, "answer_wait"},
    (Scope.WHEELS,): set(),
    (Scope.ADMIN,): set(TOOLS),
    (): set(TOOLS),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(shared_config: NatsBackendConfig) -> AsyncIterator[RunningGateway]:
    keyed = replace(shared_config, http_auth_mode="api_key", auth_pepper=PEPPER)
    async with running_gateway(keyed) as running, serving_worker(keyed):
        yield running


async def tools_of(client: "Client") -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


@pytest.mark.parametrize("scopes", TOOLS_OF, ids=",".join)
async def test_tools_follow_the_scopes_of_the_key(gateway: RunningGateway, scopes: tuple[Scope, ...]) -> None:
    async with a_key(gateway, "acme", scopes=scopes) as tenant, over_http(tenant) as client:
        assert await tools_of(client) == TOOLS_OF[scopes]


@asynccontextmanager
async def an_open_question(agent: Tenant) -> AsyncIterator[tuple[str, str]]:
    """Its run and its id."""
    run_id = await agent.submit("ask")
    await agent.reaches(run_id, "WAITING_HUMAN")
    [wait] = (await agent.json("/waits", run_id=run_id))["items"]
    yield run_id, wait["wait_id"]


async def test_an_agent_cannot_approve_what_it_runs_and_an_approver_can_do_nothing_else(
    gateway: RunningGateway,
) -> None:
    agent_scopes = [Scope.SUBMIT, Scope.READ, Scope.OPERATE]
    async with (
        a_key(gateway, "approving", scopes=agent_scopes) as agent,
        a_key(gateway, "approving", scopes=[Scope.ANSWER]) as approver,
        an_open_question(agent) as (run_id, wait_id),
    ):
        async with over_http(agent) as client:
            error = await refused(client, "answer_wait", wait_id=wait_id, payload="yes")
            assert error.startswith("ERR-PYOCO-0032 (403)")
            assert "needs the scope `answer`" in error
        for path, body in (
            (f"/waits/{wait_id}/respond", {"payload": "yes"}),
            ("/resume", {"runId": run_id, "payload": "yes"}),
        ):
            assert (await agent.http.post(path, json=body)).status_code == 403
        # The tools of a key are the same over stdio.
        async with over_stdio(approver) as session:
            assert {tool.name for tool in (await session.list_tools()).tools} == TOOLS_OF[Scope.ANSWER,]
            assert "needs the scope `operate`" in await refused(session, "cancel_run", run_id=run_id)
            [wait] = (await called(session, "list_waits"))["items"]
            assert wait["wait_id"] == wait_id
            await called(session, "answer_wait", wait_id=wait_id, payload="yes")
        run = await agent.ends(run_id)
        assert run["task_records"]["just_ask"]["output"] == "yes"
        decided = await agent.json(f"/waits/{wait_id}")
        assert decided["decided_by"]["api_key_id"] == approver.api_key_id


async def test_what_another_tenant_has_is_not_found(gateway: RunningGateway) -> None:
    async with (
        a_key(gateway, "acme") as acme,
        a_key(gateway, "with-nothing") as rival,
        an_open_question(acme) as (run_id, wait_id),
        over_http(rival) as client,
    ):
        for tool in ("get_run", "get_result", "explain_run", "get_logs", "cancel_run", "rerun"):
            assert (await refused(client, tool, run_id=run_id)).startswith("ERR-PYOCO-0005 (404)")
        for tool in ("get_wait", "answer_wait"):
            arguments = {"payload": 1} if tool == "answer_wait" else {}
            error = await refused(client, tool, wait_id=wait_id, **arguments)
            assert error.startswith("ERR-PYOCO-0035 (404)")
        assert (await called(client, "list_runs"))["items"] == []
        assert (await called(client, "list_waits"))["items"] == []
        assert (await acme.get(run_id))["status"] == "WAITING_HUMAN"


async def test_a_repeated_submit_is_one_run(gateway: RunningGateway) -> None:
    async with a_key(gateway, "acme") as tenant, over_http(tenant) as client:
        call = {"flow_name": "chain", "params": {"x": 1}, "idempotency_key": "the-agents-own"}
        first = await called(client, "submit_run", **call)
        again = await called(client, "submit_run", **call)
        assert (again["run_id"], "notes" in first) == (first["run_id"], False)
        assert "this call started nothing" in again["notes"][0]
        other = await refused(client, "submit_run", **call | {"params": {"x": 2}})
        assert other.startswith("ERR-PYOCO-0026 (409)")
        assert len((await called(client, "list_runs", flow="chain"))["items"]) == 1
        # Calls without a key are different runs.
        runs = {(await called(client, "submit_run", flow_name="noop"))["run_id"] for _ in range(2)}
        assert len(runs) == 2
        async with a_key(gateway, "rival") as rival, over_http(rival) as of_rival:
            theirs = await called(of_rival, "submit_run", **call)
            assert theirs["run_id"] != first["run_id"]


async def test_new_key_has_its_tools_at_once(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = gateway.inside.authentication.keys
    without_background_refreshes(monkeypatch, keys)
    await keys.confirm()
    key = await new_key(gateway.inside.connection, scopes=[Scope.SUBMIT])
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}
    response = await gateway.http.post("/mcp", json=message, headers=key.header | accept)
    assert response.status_code == 200, response.text
    assert {tool["name"] for tool in response.json()["result"]["tools"]} == {"submit_run"}


async def test_without_a_valid_key_nothing_is_served(gateway: RunningGateway) -> None:
    from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - see mcp_clients.py

    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert (await gateway.http.post("/mcp", json=message)).status_code == 401
    async with over_stdio(gateway) as session:
        with pytest.raises(MCPError, match="ERR-PYOCO-0014"):
            await session.list_tools()
        assert "ERR-PYOCO-0014" in await refused(session, "list_runs")


async def test_a_call_counts_once_for_the_rate_limit(config: NatsBackendConfig) -> None:
    limited = replace(config, http_rate_limit=0.001, http_rate_limit_burst=2)
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "list_workers", "arguments": {}},
    }
    accept = {"Accept": "application/json"}
    async with running_gateway(limited) as gateway:
        responses = [await gateway.http.post("/mcp", json=message, headers=accept) for _ in range(3)]
        assert [response.status_code for response in responses] == [200, 200, 429]
        assert 'isError":true' not in responses[1].text
