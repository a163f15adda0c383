"""Waits for people through both clients, with a real gateway."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
import pytest_asyncio

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_client import AsyncPyocoHttpClient, PyocoHttpClient, PyocoHttpError
from pyoco_server.records.waits.wait_models import WaitState
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.waiting_runs import WaitingRun, waiting_run
from tests.support.waiting import LIMIT_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

NO_RUN = "00000000-0000-4000-8000-000000000000"
NO_WAIT = f"{NO_RUN}.0123456789abcdef"


@pytest_asyncio.fixture(loop_scope="module")
async def client(shared_gateway: RunningGateway) -> AsyncIterator[AsyncPyocoHttpClient]:
    async with AsyncPyocoHttpClient(str(shared_gateway.http.base_url)) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def run(shared_gateway: RunningGateway) -> WaitingRun:
    return await waiting_run(shared_gateway.inside.connection)


async def two_waits(shared_gateway: RunningGateway, flow_name: str = "invoice") -> WaitingRun:
    return await waiting_run(
        shared_gateway.inside.connection, {}, {"assignees": ["finance"]}, flow_name=flow_name
    )


async def refusal(call: Any) -> PyocoHttpError:
    with pytest.raises(PyocoHttpError) as raised:
        await call
    return raised.value


async def test_open_waits_are_listed_with_filters_and_pages(
    client: AsyncPyocoHttpClient, shared_gateway: RunningGateway
) -> None:
    runs = [
        await two_waits(shared_gateway, "listed"),
        await waiting_run(shared_gateway.inside.connection, flow_name="listed"),
    ]
    page = await client.waits(2, flow="listed")
    assert (len(page["items"]), page["total"]) == (2, 3)
    assert page["next_cursor"] is not None
    listed = [wait["wait_id"] async for wait in client.iter_waits(2, flow="listed")]
    assert sorted(listed) == sorted(wait.wait_id for run in runs for wait in run.waits)
    for selected, count in (
        ({"run_id": runs[0].run_id}, 2),
        ({"task": "check"}, 1),
        ({"assignee": "finance"}, 1),
        ({"state": ["answered", "expired"]}, 0),
        ({"tag": "elsewhere"}, 0),
    ):
        assert (await client.waits(flow="listed", **selected))["total"] == count, selected


async def test_an_answer_is_given_once_and_its_history_kept(
    client: AsyncPyocoHttpClient, run: WaitingRun
) -> None:
    receipt = await client.respond(run.wait_id, {"ok": True}, decision_id="mine")
    assert (receipt["success"], receipt["wait_id"], receipt["run_id"]) == (True, run.wait_id, run.run_id)
    again = await client.respond(run.wait_id, {"ok": True}, decision_id="mine")
    assert (again["decided_at"], again["repeated"]) == (receipt["decided_at"], True)
    refused = await refusal(client.respond(run.wait_id, {"ok": False}))
    assert (refused.status, refused.word) == (409, "already_decided")
    wait = await client.get_wait(run.wait_id)
    assert (wait["state"], wait["payload"], wait["decision_id"]) == ("answered", {"ok": True}, "mine")
    assert [event["kind"] for event in wait["events"]] == ["opened", "answered", "refused"]


@pytest.mark.parametrize("payload", [None, False, 0, "", {}])
async def test_a_falsy_payload_is_an_answer_and_an_omitted_one_is_not(
    client: AsyncPyocoHttpClient, run: WaitingRun, payload: object
) -> None:
    assert (await refusal(client.respond(run.wait_id))).status == 422
    assert (await run.wait()).state is WaitState.OPEN
    await client.respond(run.wait_id, payload)
    assert (await run.wait()).answer == payload


async def test_a_proposal_is_decided_on(client: AsyncPyocoHttpClient, shared_gateway: RunningGateway) -> None:
    runs = [
        await waiting_run(shared_gateway.inside.connection, {"proposal": {"amount": 10}}) for _ in range(4)
    ]
    digest = (await client.get_wait(runs[0].wait_id))["proposal_digest"]
    await client.respond(runs[0].wait_id, decision="approved", digest=digest)
    await client.respond(runs[1].wait_id, {"amount": 9}, decision="edited", digest=digest)
    await client.respond(runs[2].wait_id, decision="rejected", note="too dear")
    values = [((await each.wait()).decision, (await each.wait()).answer["value"]) for each in runs[:3]]
    assert values == [("approved", {"amount": 10}), ("edited", {"amount": 9}), ("rejected", None)]
    refused = await refusal(client.respond(runs[3].wait_id, decision="approved", digest="other"))
    assert (refused.status, refused.word) == (412, "proposal_changed")
    payload = {"decision": "approved", "digest": digest}
    assert await client.resume(runs[3].run_id, payload) == {"runId": runs[3].run_id, "success": True}


async def test_an_answer_that_the_schema_refuses_names_its_fields(
    client: AsyncPyocoHttpClient, shared_gateway: RunningGateway
) -> None:
    schema = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}
    run = await waiting_run(shared_gateway.inside.connection, {"schema": schema})
    refused = await refusal(client.resume(run.run_id, {"amount": "ten"}))
    assert (refused.status, refused.word) == (422, "invalid_answer")
    assert "amount" in refused.errors[0].field
    assert (await client.resume(run.run_id, {"amount": 10}))["success"]


async def test_resume_needs_exactly_one_open_wait(
    client: AsyncPyocoHttpClient, shared_gateway: RunningGateway, run: WaitingRun
) -> None:
    several = await two_waits(shared_gateway)
    refused = await refusal(client.resume(several.run_id, 1))
    assert (refused.status, refused.word) == (409, "ambiguous_wait")
    assert all(wait.wait_id in refused.detail for wait in several.waits)
    for decision_id in ("a", "a"):
        assert (await client.resume(run.run_id, 1, decision_id=decision_id))["success"]
    assert (await refusal(client.resume(NO_RUN, 1))).status == 404
    unknown = await refusal(client.get_wait(NO_WAIT))
    assert (unknown.status, unknown.word) == (404, "not_found")


async def test_a_retry_asks_an_expired_wait_again(
    client: AsyncPyocoHttpClient, shared_gateway: RunningGateway
) -> None:
    run = await waiting_run(shared_gateway.inside.connection, {"timeout_sec": 0.2})

    async def failed() -> bool:
        return (await client.get_run(run.run_id))["status"] == "FAILED"

    await eventually(failed, describe="the wait has expired")
    assert (await client.get_run(run.run_id))["reason"] == "human_timeout"
    late = await refusal(client.respond(run.wait_id, 1))
    assert (late.status, late.word) == (410, "expired")
    again = await client.retry(run.run_id)
    assert again["status"] == "WAITING_HUMAN"
    assert again["open_waits"][0]["wait_id"] != run.wait_id
    waiting = await waiting_run(shared_gateway.inside.connection)
    assert (await refusal(client.retry(waiting.run_id))).status == 409


async def test_the_inbox_is_watched_with_both_clients(config: NatsBackendConfig) -> None:
    received: list[tuple[str, list[str]]] = []
    async with running_gateway(config) as gateway, AsyncPyocoHttpClient(str(gateway.http.base_url)) as client:
        run = await waiting_run(gateway.inside.connection)
        async with asyncio.timeout(LIMIT_SEC), aclosing(client.watch_waits()) as events:
            async for event in events:
                waits = event["waits"] if event["event"] == "open" else [event["wait"]]
                received.append((event["event"], [wait["wait_id"] for wait in waits]))
                if event["event"] == "open":
                    later = await waiting_run(gateway.inside.connection)
                elif event["event"] == "opened":
                    await client.respond(run.wait_id, "fine")
                else:
                    break
        assert received == [
            ("open", [run.wait_id]),
            ("opened", [later.wait_id]),
            ("closed", [run.wait_id]),
        ]

        def use() -> list[object]:
            with PyocoHttpClient(str(gateway.http.base_url)) as client:
                first = next(iter(client.watch_waits()))
                listed = [wait["wait_id"] for wait in client.iter_waits()]
                shown = client.get_wait(listed[0])["state"]
                resumed = client.resume(later.run_id, None)
                return [first["event"], listed, shown, client.waits()["total"], resumed["success"]]

        assert await asyncio.to_thread(use) == ["open", [later.wait_id], "open", 0, True]
