"""Waits over HTTP: lists, one wait, answers and error codes; the tests write the records of a worker."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
import pytest_asyncio
from msgspec import UNSET, structs

from pyoco_server.broker.client.connection import PayloadTooLarge
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsForbidden, NatsUnavailable
from pyoco_server.records.runs.run_models import encode, new_run_id
from pyoco_server.records.waits.wait_models import WaitRecord, WaitState
from pyoco_server.waits.human.answers.answering import AnswerHandler
from tests.support.broker.stored_runs import snapshot, write
from tests.support.broker.stored_waits import ask, decide
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.tenants import OPERATOR, Tenant, a_key, having_tenants
from tests.support.running.waiting_runs import jobs_in_queue

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNKNOWN_RUN = "00000000-0000-4000-8000-000000000000"
WORDS = {"success", "error", "message"}


@pytest.fixture
def gateway(shared_gateway: RunningGateway) -> RunningGateway:
    return shared_gateway


@pytest.fixture
def flow() -> str:
    """The flow of this test's waits: others are in the same account."""
    return f"flow-{new_run_id()}"


def assert_worded(answer: httpx.Response, status: int, number: int, word: str) -> dict[str, Any]:
    """A problem as all of them, and in the words of spec 4."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["err_id"] == f"ERR-PYOCO-{number:04d}"
    assert (problem["success"], problem["error"]) == (False, word)
    assert problem["message"]
    return problem


async def listed(gateway: RunningGateway, **query: Any) -> list[str]:
    return [item["name"] for item in (await page(gateway, **query))["items"]]


async def page(gateway: RunningGateway, **query: Any) -> dict[str, Any]:
    answer = await gateway.http.get("/waits", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def respond(gateway: RunningGateway, wait: WaitRecord, **body: Any) -> httpx.Response:
    return await gateway.http.post(f"/waits/{wait.wait_id}/respond", json=body)


# Lists


async def test_open_waits_are_listed_the_next_deadline_first(gateway: RunningGateway, flow: str) -> None:
    now = time.time()
    for name, left in (("later", 300.0), ("soon", 100.0), ("next", 200.0)):
        await ask(gateway.inside, name, flow_name=flow, deadline_at=now + left)
    assert await listed(gateway, flow=flow) == ["soon", "next", "later"]


async def test_an_item_has_what_an_inbox_shows_and_not_what_may_be_large(
    gateway: RunningGateway, flow: str
) -> None:
    [wait] = await ask(
        gateway.inside, "approve", flow_name=flow, proposal={"amount": 7}, assignees=["finance"]
    )
    [item] = (await page(gateway, flow=flow))["items"]
    assert item["wait_id"] == wait.wait_id
    assert (item["run_id"], item["flow_name"], item["task"]) == (wait.run_id, flow, "check")
    assert (item["message"], item["state"], item["deadline_at"]) == ("approve?", "open", wait.deadline_at)
    assert item["proposal_digest"] == wait.proposal_digest
    assert item["assignees"] == ["finance"]
    assert not {"proposal", "schema", "payload", "default"} & set(item)


async def test_a_wait_that_was_decided_before_the_question_is_not_listed_as_open(
    gateway: RunningGateway, flow: str
) -> None:
    for _ in range(10):
        [wait] = await ask(gateway.inside, flow_name=flow)
        assert (await respond(gateway, wait, payload=1)).status_code == 200
        assert await listed(gateway, flow=flow) == []


async def test_waits_are_listed_by_state(gateway: RunningGateway, flow: str) -> None:
    for state in WaitState:
        [wait] = await ask(gateway.inside, state.value, flow_name=flow)
        if state is not WaitState.OPEN:
            await decide(gateway.inside.waits.store, wait, state)
    for states, names in (
        ({}, ["open"]),
        ({"state": "answered"}, ["answered"]),
        ({"state": "EXPIRED,cancelled"}, ["cancelled", "expired"]),
        ({"state": ["open", "answered"]}, ["answered", "open"]),
    ):
        assert await listed(gateway, flow=flow, **states) == names


async def test_each_filter_leaves_out_the_others(gateway: RunningGateway, flow: str) -> None:
    fields = {"flow_name": flow, "tag": "gpu", "task": "load", "assignees": ["ann", "bob"]}
    [wanted] = await ask(gateway.inside, "wanted", **fields)
    await ask(gateway.inside, "other", assignees=["an"])
    for query in (
        {"run_id": wanted.run_id},
        {"flow": flow},
        {"tag": "gpu"},
        {"task": "load"},
        {"assignee": "ann"},
        {"flow": flow, "assignee": "bob"},
    ):
        found = await page(gateway, **query)
        assert [item["name"] for item in found["items"]] == ["wanted"], query
        assert found["total"] == 1
    assert await listed(gateway, flow=flow, assignee="an") == []


@pytest.mark.parametrize("state", ["open", "open,answered"])
async def test_pages_have_every_wait_once(gateway: RunningGateway, flow: str, state: str) -> None:
    now = time.time()
    for number in range(7):
        # Some at the same time: then their ids are in order.
        deadline = now + 3600 + number // 3
        await ask(gateway.inside, f"n{number}", flow_name=flow, created_at=now, deadline_at=deadline)
    names: list[str] = []
    query: dict[str, Any] = {"limit": 3, "state": state, "flow": flow}
    while True:
        found = await page(gateway, **query)
        names += [item["name"] for item in found["items"]]
        assert found["total"] == 7
        if found["next_cursor"] is None:
            break
        query["cursor"] = found["next_cursor"]
    assert sorted(names) == [f"n{number}" for number in range(7)]


async def test_an_invalid_query_is_rejected_by_name(gateway: RunningGateway) -> None:
    await ask(gateway.inside, "one", "two")
    # Valid for its own query only.
    cursor = (await page(gateway, limit=1))["next_cursor"]
    for query, field in (
        ({"state": "answered", "cursor": cursor}, "cursor"),
        ({"cursor": cursor[:-2]}, "cursor"),
        ({"cursor": "x"}, "cursor"),
        ({"state": "closed"}, "state"),
        ({"state": ""}, "state"),
        ({"run_id": "x"}, "run_id"),
        ({"limit": "0"}, "limit"),
        ({"limit": "201"}, "limit"),
        ({"flow": ""}, "flow"),
        ({"tenant": "acme"}, "tenant"),
    ):
        answer = await gateway.http.get("/waits", params=query)
        assert answer.status_code == 422, query
        assert [problem["field"] for problem in answer.json()["errors"]] == [field]


# One wait


async def test_a_wait_is_shown_with_its_events(gateway: RunningGateway) -> None:
    schema = {"type": "object", "required": ["ok"]}
    wait, other = await ask(gateway.inside, "approve", "other", schema=schema)
    assert (await respond(gateway, other, payload={"ok": False})).status_code == 200
    path = f"/waits/{wait.wait_id}"
    before = (await gateway.http.get(path)).json()
    assert (before["state"], before["schema"], before["message"]) == ("open", schema, "approve?")
    assert "payload" not in before
    refused = await respond(gateway, wait, payload={})
    assert_worded(refused, 422, 39, "invalid_answer")
    answer = await gateway.http.post(
        f"{path}/respond",
        json={"payload": {"ok": True}, "on_behalf_of": "ada@example.com"},
        headers={"User-Agent": "a test"},
    )
    assert answer.status_code == 200, answer.text
    after = (await gateway.http.get(path)).json()
    assert (after["state"], after["payload"]) == ("answered", {"ok": True})
    person = {"on_behalf_of": "ada@example.com"}
    assert after["decided_by"] == {"ip": "127.0.0.1", "user_agent": "a test", **person}
    assert [event["kind"] for event in after["events"]] == ["refused", "answered"]
    assert {event["wait_id"] for event in after["events"]} == {wait.wait_id}
    assert after["events"][0]["why"] == "invalid_answer"
    assert after["events"][1]["actor"]["user_agent"] == "a test"


async def test_unknown_waits_are_404(gateway: RunningGateway) -> None:
    [wait] = await ask(gateway.inside)
    of_another_run = f"{UNKNOWN_RUN}.{wait.wait_id.partition('.')[2]}"
    for unknown in (of_another_run, f"{UNKNOWN_RUN}.0123456789abcdef", UNKNOWN_RUN, "x", "*.>", "a.b.c"):
        assert_worded(await gateway.http.get(f"/waits/{unknown}"), 404, 35, "not_found")
        answer = await gateway.http.post(f"/waits/{unknown}/respond", json={"payload": 1})
        assert_worded(answer, 404, 35, "not_found")


# Answers


@pytest.mark.parametrize("payload", [None, False, {"note": "日本語"}])
async def test_an_answer_may_be_anything_and_continues_the_run(
    gateway: RunningGateway, payload: object
) -> None:
    [wait] = await ask(gateway.inside)
    answer = await respond(gateway, wait, payload=payload, decision_id="click")
    assert answer.status_code == 200, answer.text
    receipt = answer.json()
    assert (receipt["success"], receipt["repeated"]) == (True, False)
    assert (receipt["wait_id"], receipt["run_id"]) == (wait.wait_id, wait.run_id)
    assert (await gateway.http.get(f"/waits/{wait.wait_id}")).json()["payload"] == payload
    jobs = await jobs_in_queue(gateway.inside.connection)
    assert [job.generation for job in jobs if job.run_id == wait.run_id] == [1]
    again = await respond(gateway, wait, payload=payload, decision_id="click")
    assert again.json() == {**receipt, "repeated": True}
    other = await respond(gateway, wait, payload="other", decision_id="click")
    assert "127.0.0.1" in assert_worded(other, 409, 36, "already_decided")["message"]


async def test_a_number_of_any_size_is_checked_against_its_schema(gateway: RunningGateway) -> None:
    [wait] = await ask(gateway.inside, schema={"multipleOf": 0.1})
    problem = assert_worded(await respond(gateway, wait, payload=0.25), 422, 39, "invalid_answer")
    assert problem["errors"][0]["field"] == "payload"
    assert (await respond(gateway, wait, payload=10**400)).status_code == 200
    assert (await gateway.http.get(f"/waits/{wait.wait_id}")).json()["payload"] == 10**400


async def test_an_invalid_body_is_rejected_and_the_wait_stays_open(config: NatsBackendConfig) -> None:
    async with running_gateway(replace(config, wait_answer_max_bytes=1024)) as gateway:
        [wait] = await ask(gateway.inside)
        for body, field in (
            (b"", ""),
            (b"not json", ""),
            (b"[]", ""),
            (b'{"payload": 1, "Payload": 2}', "Payload"),
            (b'{"decision": "maybe"}', "decision"),
            (b'{"payload": 1, "decision_id": ""}', "decision_id"),
            (b'{"payload": ' + b"[" * 200 + b"]" * 200 + b"}", "payload"),
            (b'{"payload": "' + b"x" * 2000 + b'"}', "payload"),
        ):
            answer = await gateway.http.post(f"/waits/{wait.wait_id}/respond", content=body)
            problem = assert_worded(answer, 422, 2, "invalid_request")
            assert problem["errors"][0]["field"] == field
        assert await listed(gateway) == ["approve"]


# By the run


async def test_resume_answers_the_only_wait_of_a_run(gateway: RunningGateway) -> None:
    [wait] = await ask(gateway.inside)
    answer = await gateway.http.post(
        "/resume", json={"runId": wait.run_id, "payload": {"decision": "approved"}}
    )
    assert (answer.status_code, answer.json()) == (200, {"runId": wait.run_id, "success": True})
    shown = (await gateway.http.get(f"/waits/{wait.wait_id}")).json()
    assert shown["payload"] == {"decision": "approved"}


async def test_resume_takes_the_run_id_under_both_names(gateway: RunningGateway) -> None:
    [wait] = await ask(gateway.inside)
    body = {"run_id": wait.run_id, "payload": 1, "decision_id": "d"}
    for _ in range(2):
        answer = await gateway.http.post("/resume", json=body)
        assert (answer.status_code, answer.json()["runId"]) == (200, wait.run_id)
    both = await gateway.http.post("/resume", json={**body, "runId": wait.run_id, "decisionId": "d"})
    assert both.status_code == 200, both.text


async def test_resume_of_a_run_that_does_not_wait_is_a_conflict(gateway: RunningGateway) -> None:
    [run_id] = await write(gateway.inside.runs.store, snapshot())
    answer = await gateway.http.post("/resume", json={"runId": run_id, "payload": {}})
    problem = assert_worded(answer, 409, 36, "invalid_state")
    assert problem["message"] == "Run is not waiting_human"


async def test_resume_of_an_unknown_run_is_not_found(gateway: RunningGateway) -> None:
    for run_id in (UNKNOWN_RUN, "x", "*", ""):
        answer = await gateway.http.post("/resume", json={"runId": run_id, "payload": {}})
        assert set(assert_worded(answer, 404, 5, "not_found")) >= WORDS
    # Only errors of waits have these.
    assert not WORDS & set((await gateway.http.get(f"/runs/{UNKNOWN_RUN}")).json())
    cases = [
        ({"runId": UNKNOWN_RUN}, "payload"),
        ({"payload": 1}, "runId"),
        ({"runId": UNKNOWN_RUN, "run_id": "x", "payload": 1}, "run_id"),
        ({"runId": True, "payload": 1}, "runId"),
    ]
    for body, field in cases:
        answer = await gateway.http.post("/resume", json=body)
        assert assert_worded(answer, 422, 2, "invalid_request")["errors"][0]["field"] == field


async def test_retry_requires_an_expired_wait(gateway: RunningGateway) -> None:
    now = time.time()
    # Who asks again gives as much time as there was: an hour, so that it does not expire once more.
    [wait] = await ask(gateway.inside, created_at=now - 3600, deadline_at=now + 0.2)
    await gateway.reaches(wait.run_id, "FAILED")
    answer = await gateway.http.post("/resume", json={"runId": wait.run_id, "payload": 1})
    assert_worded(answer, 410, 37, "expired")
    answer = await gateway.http.post(f"/runs/{wait.run_id}/retry")
    assert answer.status_code == 200, answer.text
    run = answer.json()
    assert run["status"] == "WAITING_HUMAN"
    assert "task_records" not in run
    [again] = run["open_waits"]
    assert again["wait_id"] != wait.wait_id
    repeated = await gateway.http.post(f"/runs/{wait.run_id}/retry")
    assert (repeated.status_code, repeated.json()["open_waits"]) == (200, run["open_waits"])
    assert_worded(await respond(gateway, wait, payload=1), 410, 37, "expired")
    assert_worded(await gateway.http.post(f"/runs/{UNKNOWN_RUN}/retry"), 404, 5, "not_found")


# Runs that wait


async def test_waiting_runs_are_listed_with_what_they_ask(config: NatsBackendConfig) -> None:
    async with running_gateway(config) as gateway:
        one, _ = await ask(gateway.inside, "one", "two")
        await write(gateway.inside.runs.store, snapshot())
        for status in ("waiting_human", "WAITING_HUMAN"):
            [run] = (await gateway.http.get("/runs", params={"status": status})).json()
        [other] = (await gateway.http.get("/runs", params={"status": "pending"})).json()
        # With its schema, if that is short.
        stored = await gateway.inside.runs.store.get_from_leader(one.run_id)
        assert stored is not None
        schemas = {"short": '{"type":"boolean"}', "long": encode({"description": "x" * 2000}).decode()}
        for name, schema in schemas.items():
            asking = structs.replace(stored.snapshot, run_id=new_run_id(), flow_name=name, wait_schema=schema)
            await gateway.inside.runs.store.create(asking)
        items = (await gateway.http.get("/runs", params={"status": "waiting_human"})).json()
    assert (run["run_id"], run["status"]) == (one.run_id, "WAITING_HUMAN")
    assert (run["wait_message"], run["wait_deadline_at"], run["open_waits"]) == ("one?", one.deadline_at, 2)
    assert (other["wait_message"], other["wait_deadline_at"], other["open_waits"]) == (None, None, 0)
    # The names that clients of waiting runs expect.
    assert (run["id"], "id" in other) == (one.run_id, False)
    shown = {item["flow_name"]: item["wait_schema"] for item in items}
    assert (shown["short"], shown["long"]) == (schemas["short"], None)


async def test_a_waiting_run_explains_itself(gateway: RunningGateway) -> None:
    [wait] = await ask(gateway.inside)
    told = (await gateway.http.get(f"/runs/{wait.run_id}/explain")).json()
    [finding] = told["findings"]
    assert (told["status"], finding["code"]) == ("WAITING_HUMAN", "waiting_human")
    assert "approve?" in told["summary"]
    assert finding["evidence"]["waits"][0]["wait_id"] == wait.wait_id
    assert {action["request"] for action in finding["next"]["actions"]} >= {
        f"GET /waits?run_id={wait.run_id}"
    }


# Metrics


async def test_waits_are_counted(config: NatsBackendConfig) -> None:
    async with running_gateway(config) as gateway:
        await ask(gateway.inside, created_at=time.time() - 100)
        [wait] = await ask(gateway.inside)
        await page(gateway)
        assert (await respond(gateway, wait, payload=1)).status_code == 200
        lines = (await gateway.http.get("/metrics")).text.splitlines()
    assert "pyoco_waits_open 1.0" in lines
    assert 'pyoco_waits_decided_total{state="answered"} 1.0' in lines
    assert 'pyoco_waits_decided_total{state="expired"} 0.0' in lines
    [age] = [line.split()[1] for line in lines if line.startswith("pyoco_waits_oldest_open_seconds ")]
    assert 100 <= float(age) < 200


# Tenants


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenants(shared_config: NatsBackendConfig) -> AsyncIterator[list[Tenant]]:
    config = replace(shared_config, index_dir=f"{shared_config.index_dir}-tenants")
    async with having_tenants(config, "acme", "rival", OPERATOR) as made:
        yield made


async def test_lists_totals_and_metrics_are_of_the_own_tenant(config: NatsBackendConfig) -> None:
    async with having_tenants(config, "acme", "rival", OPERATOR) as (acme, rival, operator):
        [wait] = await ask(acme.inside, "acmes", tenant_id="acme")
        await ask(acme.inside, "nobodys")
        for tenant, names in ((acme, ["acmes"]), (rival, []), (operator, ["acmes", "nobodys"])):
            found = await page(tenant, run_id=wait.run_id) if tenant is rival else await page(tenant)
            assert sorted(item["name"] for item in found["items"]) == names
            assert found["total"] == len(names)
            metrics = (await tenant.http.get("/metrics")).text.splitlines()
            assert f"pyoco_waits_open {len(names)}.0" in metrics


async def test_every_answer_names_the_key_that_gave_it(tenants: list[Tenant]) -> None:
    acme, rival, _ = tenants
    [wait] = await ask(acme.inside, tenant_id="acme")
    resumed = {"runId": wait.run_id, "payload": 1}
    assert_worded(await respond(rival, wait, payload=1), 404, 35, "not_found")
    assert_worded(await rival.http.post("/resume", json=resumed), 404, 5, "not_found")
    assert (await acme.http.post("/resume", json=resumed)).status_code == 200
    shown = await acme.json(f"/waits/{wait.wait_id}")
    assert shown["decided_by"]["api_key_id"] == acme.api_key_id
    assert shown["decided_by"]["tenant_id"] == "acme"
    assert [event["kind"] for event in shown["events"]] == ["answered"]


async def test_only_an_assignee_answers(tenants: list[Tenant]) -> None:
    acme, _, _ = tenants
    async with a_key(acme, "acme") as colleague:
        [wait] = await ask(acme.inside, tenant_id="acme", assignees=[colleague.api_key_id])
        assert await listed(acme, run_id=wait.run_id) == ["approve"]
        assert_worded(await respond(acme, wait, payload=1), 403, 40, "not_assigned")
        answer = await acme.http.post("/resume", json={"runId": wait.run_id, "payload": 1})
        assert_worded(answer, 403, 40, "not_assigned")
        assert (await respond(colleague, wait, payload=1)).status_code == 200


async def test_middleware_errors_have_wait_error_codes(tenants: list[Tenant]) -> None:
    acme, _, _ = tenants
    [wait] = await ask(acme.inside, tenant_id="acme")
    paths = (f"/waits/{wait.wait_id}/respond", "/resume", f"/runs/{wait.run_id}/retry")
    async with httpx.AsyncClient(base_url=acme.http.base_url) as nobody:
        for path in paths:
            assert_worded(await nobody.post(path), 401, 14, "unauthorized")
            assert_worded(await nobody.post(path, headers={"X-API-Key": "x"}), 403, 15, "forbidden")
        assert_worded(await nobody.get("/waits"), 401, 14, "unauthorized")
        assert not WORDS & set((await nobody.get("/runs")).json())


@pytest.mark.parametrize("kind", [NatsUnavailable, NatsForbidden, PayloadTooLarge])
async def test_every_nats_error_has_the_same_code(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, kind: type[NatsUnavailable]
) -> None:
    async def away(self: object, *args: object, **more: object) -> None:
        raise kind("for a test")

    monkeypatch.setattr(AnswerHandler, "resume", away)
    answer = await gateway.http.post("/resume", json={"runId": UNKNOWN_RUN, "payload": None})
    assert_worded(answer, 503, 3, "unavailable")


async def test_too_many_schema_checks_are_503_with_retry_after(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyoco_server.json_schemas.schema_checker._MAX_CHECKS", 0)
    [wait] = await ask(gateway.inside, schema={"type": "string", "pattern": "^a$"})
    answer = await respond(gateway, wait, payload="a")
    assert_worded(answer, 503, 43, "busy")
    assert answer.headers["retry-after"] == "2"
    shown = (await gateway.http.get(f"/waits/{wait.wait_id}")).json()
    # The wait is unchanged.
    assert (shown["state"], shown["events"]) == ("open", [])


async def test_the_decided_value_is_shown(gateway: RunningGateway) -> None:
    [wait] = await ask(gateway.inside, proposal={"amount": 1})
    changed = await respond(gateway, wait, decision="approved", digest="0" * 64)
    assert_worded(changed, 412, 38, "proposal_changed")
    approval = {"decision": "approved", "digest": wait.proposal_digest, "note": "ok"}
    assert (await respond(gateway, wait, **approval)).json()["decision"] == "approved"
    stored = await gateway.inside.waits.store.get_from_leader(wait.wait_id)
    assert stored is not None
    assert stored.record.payload is UNSET
    assert (await gateway.http.get(f"/waits/{wait.wait_id}")).json()["payload"] == {"amount": 1}
    [late] = await ask(gateway.inside, default=None, deadline_at=time.time())
    await respond(gateway, late, payload=1)
    shown = (await gateway.http.get(f"/waits/{late.wait_id}")).json()
    assert (shown["state"], shown["payload"]) == ("expired", None)
