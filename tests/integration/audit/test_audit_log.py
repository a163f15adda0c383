"""`GET /audit`: what is written for which request, by whom, in which order, and on which gateway."""

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from pyoco_server.auth.scopes import Scope
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunStatus
from tests.support.broker.stored_runs import ended, written
from tests.support.broker.stored_waits import ask
from tests.support.broker.worker_records import a_record, put_record
from tests.support.running.gateway import RunningGateway
from tests.support.running.mcp_clients import called, over_http
from tests.support.running.tenants import OPERATOR, Tenant, a_key, having_tenants
from tests.support.samples.wheel_uploads import registered

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenants(shared_config: NatsBackendConfig) -> AsyncIterator[list[Tenant]]:
    async with having_tenants(shared_config, "acme", "rival", OPERATOR) as tenants:
        yield tenants


async def audit(gateway: RunningGateway, **query: Any) -> list[dict[str, Any]]:
    response = await gateway.http.get("/audit", params=query)
    assert response.status_code == 200, response.text
    items: list[dict[str, Any]] = response.json()["items"]
    return items


async def a_run(tenant: Tenant, **fields: Any) -> str:
    run = await written(tenant.inside.connection, tenant_id=tenant.tenant_id, flow_name="etl", **fields)
    return run.run_id


async def test_a_cancel_is_written_before_its_response_is_sent(tenants: list[Tenant]) -> None:
    acme = tenants[0]
    async with a_key(acme, "acme", name="Ann") as ann:
        run_id = await a_run(ann)
        headers = {"X-Request-Id": "req-1", "User-Agent": "pyoco-client/1.0"}
        response = await ann.http.post(
            f"/runs/{run_id}/cancel", json={"reason": "wrong month"}, headers=headers
        )
        assert response.headers["X-Request-Id"] == "req-1"
        [entry] = await audit(acme, run_id=run_id)
    assert entry["actor"] == {
        "tenant_id": "acme",
        "api_key_id": ann.api_key_id,
        "name": "Ann",
        "ip": "127.0.0.1",
        "user_agent": "pyoco-client/1.0",
        "on_behalf_of": None,
    }
    assert (entry["action"], entry["via"], entry["request_id"]) == ("run.cancel", "cli", "req-1")
    assert entry["target"] == {"kind": "run", "id": run_id, "name": "etl"}
    assert (entry["outcome"], entry["status"], entry["err_id"]) == ("accepted", 200, None)
    assert (entry["details"], entry["tenant_id"]) == ({"reason": "wrong month"}, "acme")


async def test_actions_of_every_area_are_written(tenants: list[Tenant]) -> None:
    acme, _, operator = tenants
    run_id = await a_run(acme)
    await put_record(acme.inside.connection, a_record("w-audit", seen_at=time.time()))
    [wait] = await ask(acme.inside, tenant_id="acme")
    schedule = {"schedule_id": "nightly", "flow_name": "etl", "spec": {"cron": ["0 2 * * *"]}}
    name = "greetings-0.1.0-py3-none-any.whl"
    start = (await audit(operator, limit=1) or [{"at": 0.0}])[0]["at"]
    for client, method, path, body in (
        (acme, "POST", f"/runs/{run_id}/signals/go", {"secret": "hunter2"}),
        (acme, "POST", f"/waits/{wait.wait_id}/respond", {"payload": "hunter2", "on_behalf_of": "Bob"}),
        (acme, "POST", "/schedules", {**schedule, "params": {"password": "hunter2"}}),
        (acme, "PATCH", "/schedules/nightly", {"params": {"password": "hunter2"}, "note": "n"}),
        (acme, "POST", "/schedules/nightly/pause", {"note": "holiday"}),
        (acme, "POST", "/bulk/cancel?flow=etl", {"expected_count": 1000}),
        (acme, "POST", "/bulk/cancel?flow=etl", {"dry_run": True}),
        (operator, "PATCH", "/workers/w-audit", {"paused": True}),
    ):
        response = await client.http.request(method, path, json=body)
        assert response.status_code < 300, response.text
    await registered(operator)
    assert (await operator.http.delete(f"/wheels/{name}")).status_code == 200
    entries = [each for each in await audit(operator, since=start, limit=200) if each["at"] > start]
    assert "hunter2" not in str(entries), "contents are not in the audit log"
    found = {each["action"]: each for each in reversed(entries)}
    assert list(found) == [
        *("run.signal", "wait.answer", "schedule.create", "schedule.update", "schedule.pause"),
        *("bulk.cancel", "worker.update", "wheel.upload", "wheel.delete"),
    ]
    assert len(entries) == len(found), "a dry run is no action"
    assert found["run.signal"]["details"].keys() == {"name", "signal_id"}
    answer = found["wait.answer"]
    assert (answer["run_id"], answer["actor"]["on_behalf_of"]) == (wait.run_id, "Bob")
    assert answer["target"] == {"kind": "wait", "id": wait.wait_id, "name": "invoices"}
    assert found["schedule.create"]["target"]["id"] == "nightly"
    assert found["schedule.update"]["details"] == {"changed": ["params", "note"]}
    assert found["schedule.pause"]["details"] == {"note": "holiday"}
    assert found["bulk.cancel"]["details"]["matched"] >= 1
    assert found["worker.update"]["details"] == {"paused": True}
    assert found["wheel.upload"]["target"]["id"] == name


async def test_refused_requests_of_a_known_key_are_written_and_of_strangers_not(
    tenants: list[Tenant],
) -> None:
    acme = tenants[0]
    run_id = await a_run(acme)
    async with a_key(acme, "acme", name="reader", scopes=[Scope.READ]) as reader:
        assert (await reader.http.post(f"/runs/{run_id}/cancel")).status_code == 403
        unknown = "00000000-0000-4000-8000-000000000009"
        assert (await acme.http.post(f"/runs/{unknown}/cancel")).status_code == 404
        [entry] = await audit(acme, actor="reader")
        assert (entry["outcome"], entry["status"], entry["err_id"]) == ("refused", 403, "ERR-PYOCO-0032")
        [missed] = await audit(acme, run_id=unknown)
        assert (missed["status"], missed["target"]["name"]) == (404, None)
        for headers in ({"X-API-Key": ""}, {"X-API-Key": f"pyoco_{'0' * 16}_{'0' * 64}"}):
            refused = await acme.http.post(f"/runs/{run_id}/cancel", headers=headers)
            assert refused.status_code in (401, 403)
        assert len(await audit(acme, run_id=run_id)) == 1


async def test_one_caller_cannot_fill_the_log_with_refused_requests(tenants: list[Tenant]) -> None:
    acme = tenants[0]
    async with a_key(acme, "acme", name="flooder", scopes=[Scope.READ]) as flooder:
        before = acme.inside.audit.log.skipped
        for number in range(40):
            await flooder.http.post(f"/schedules/s{number}/pause")
        assert len(await audit(acme, actor="flooder", limit=200)) < 30
        assert acme.inside.audit.log.skipped > before


async def test_an_operator_is_seen_by_the_tenant_of_the_run_without_its_address(
    tenants: list[Tenant],
) -> None:
    acme, rival, operator = tenants
    run = ended(RunStatus.FAILED, tenant_id="acme", flow_name="etl")
    await acme.inside.runs.store.create(run)
    assert (await operator.http.post(f"/runs/{run.run_id}/cancel")).status_code == 200
    [seen] = await audit(acme, run_id=run.run_id)
    assert (seen["tenant_id"], seen["actor"]["ip"], seen["actor"]["api_key_id"]) == ("acme", None, None)
    [own] = await audit(operator, run_id=run.run_id)
    assert own["actor"]["api_key_id"] == operator.api_key_id
    assert await audit(rival, run_id=run.run_id) == []


async def test_the_call_of_a_tool_is_written_as_such(tenants: list[Tenant]) -> None:
    acme = tenants[0]
    run_id = await a_run(acme)
    async with over_http(acme) as client:
        await called(client, "cancel_run", run_id=run_id)
    [entry] = await audit(acme, run_id=run_id)
    assert (entry["action"], entry["via"]) == ("run.cancel", "mcp")


async def test_the_log_needs_its_scope_and_a_correct_query(tenants: list[Tenant]) -> None:
    acme = tenants[0]
    async with (
        a_key(acme, "acme", scopes=[Scope.READ, Scope.OPERATE]) as operator,
        a_key(acme, "acme", scopes=[Scope.AUDIT]) as auditor,
        a_key(acme, "acme", scopes=[Scope.ADMIN]) as admin,
    ):
        assert (await operator.http.get("/audit")).status_code == 403
        assert (await admin.http.get("/audit")).status_code == 200
        for _ in range(2):
            await acme.http.post(f"/runs/{await a_run(acme)}/cancel")
        page = (await auditor.http.get("/audit", params={"limit": 1})).json()
        second = await auditor.http.get("/audit", params={"limit": 1, "cursor": page["next_cursor"]})
        assert second.json()["items"][0]["id"] != page["items"][0]["id"]
        for query, field in (
            ({"outcome": "good"}, "outcome"),
            ({"since": "yesterday"}, "since"),
            ({"run_id": "x"}, "run_id"),
            ({"limit": "201"}, "limit"),
            ({"cursor": "x"}, "cursor"),
            ({"who": "x"}, "who"),
        ):
            response = await auditor.http.get("/audit", params=query)
            assert response.status_code == 422 or response.status_code == 400, response.text
            assert response.json()["errors"][0]["field"] == field


async def test_submits_are_not_written(tenants: list[Tenant]) -> None:
    acme = tenants[0]
    before = acme.inside.audit.log.written.total()
    await acme.submit("noop")
    assert acme.inside.audit.log.written.total() == before
