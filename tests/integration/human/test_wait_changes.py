"""Withdrawing, extending and reassigning an open wait."""

import asyncio
import time
from dataclasses import replace
from typing import Any

import httpx
import pytest
from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import (
    InvalidRequest,
    NotAssigned,
    PyocoError,
    WaitConflict,
    WaitExpired,
    WaitNotFound,
)
from pyoco_server.records.runs.run_models import RunStatus, TaskStatus
from pyoco_server.records.waits.wait_models import WaitRecord
from pyoco_server.runs.lifecycle.cancel_request import cancel_run
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.waits.continuation import Continuations
from pyoco_server.waits.human.answers.answering import Answer, AnswerHandler, AnswerReceipt
from pyoco_server.waits.human.reopen import retry_run
from pyoco_server.waits.human.wait_changes import ChangeRequest, WaitChanges
from pyoco_server.waits.wait_event_outbox import flush_outbox
from pyoco_server.waits.wait_maintenance import WaitMaintenance
from tests.integration.waits.test_wait_expiry import maintaining
from tests.support.broker.waits_in_bucket import SeenRuns, WaitsInBucket
from tests.support.running.gateway import RunningGateway
from tests.support.running.people import ANN, ANN_KEY, BOB, BOB_KEY, STRANGER
from tests.support.running.waiting_runs import WaitingRun, waiting_run

pytestmark = pytest.mark.asyncio(loop_scope="module")

WHY = "the invoice was cancelled"


@pytest.fixture(scope="module")
def shared_config(shared_config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(shared_config, sweep_interval_sec=0.1)


@pytest.fixture
def connection(shared_connection: Connection) -> Connection:
    return shared_connection


@pytest.fixture
def changes(connection: Connection) -> WaitChanges:
    return WaitChanges(connection)


def by_ann(run: WaitingRun, reason: str | None = WHY, wait: WaitRecord | None = None) -> ChangeRequest:
    return ChangeRequest(wait.wait_id if wait else run.wait_id, ANYBODY, ANN, reason)


# Withdrawing


async def test_a_withdrawn_wait_ends_its_run_with_who_and_why(
    connection: Connection, changes: WaitChanges
) -> None:
    run = await waiting_run(connection, {"default": 7}, {})
    first, other = run.waits
    wait = await changes.withdraw(by_ann(run, wait=first))

    assert (wait.state, wait.decided_by, wait.note) == ("withdrawn", ANN, WHY)
    assert wait == await run.wait(first.wait_id)
    ended = await run.now()
    assert (ended.status, ended.reason) == (RunStatus.FAILED, "human_withdrawn")
    assert f"withdrawn by ann: {WHY}" in (ended.error or "")
    assert ended.tasks == {first.task: TaskStatus.FAILED, other.task: TaskStatus.CANCELLED}
    assert await run.states() == ["withdrawn", "cancelled"]
    [event] = [event for event in await run.events() if event.kind == "withdrawn"]
    assert (event.actor, event.why, event.wait_id) == (ANN, WHY, first.wait_id)


async def test_a_withdrawal_is_repeated_without_effect(connection: Connection, changes: WaitChanges) -> None:
    run = await waiting_run(connection)
    first = await changes.withdraw(by_ann(run))
    assert await changes.withdraw(by_ann(run, reason="another")) == first
    assert (await run.kinds()).count("withdrawn") == 1


async def test_a_retry_asks_a_withdrawn_question_again(connection: Connection, changes: WaitChanges) -> None:
    run = await waiting_run(connection)
    await changes.withdraw(by_ann(run))
    again = await retry_run(connection, run.run_id, ANYBODY, ANN)
    assert again.status is RunStatus.WAITING_HUMAN
    [reopened] = again.open_waits or []
    assert reopened.wait_id != run.wait_id
    await AnswerHandler(connection).respond(reopened.wait_id, Answer(payload=1), ANYBODY, ANN)
    await run.has_jobs()


async def test_a_withdrawal_beside_running_tasks_leaves_the_run_to_its_worker(
    connection: Connection, changes: WaitChanges
) -> None:
    run = await waiting_run(connection, suspended=False)
    await changes.withdraw(by_ann(run))
    assert (await run.now()).status is RunStatus.RUNNING
    assert await run.states() == ["withdrawn"]


async def test_a_run_whose_gateway_stopped_after_the_withdrawal_is_ended_by_another(
    connection: Connection, changes: WaitChanges, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stopped(*_: Any) -> None: ...

    run = await waiting_run(connection)
    with monkeypatch.context() as patched:
        patched.setattr(Continuations, "continue_run", stopped)
        await changes.withdraw(by_ann(run))
    assert (await run.now()).status is RunStatus.WAITING_HUMAN
    async with maintaining(connection):
        await run.ends()
    assert (await run.now()).reason == "human_withdrawn"


async def test_an_answer_to_a_withdrawn_wait_says_who_withdrew_it(
    connection: Connection, changes: WaitChanges
) -> None:
    run = await waiting_run(connection)
    await changes.withdraw(by_ann(run))
    with pytest.raises(WaitConflict, match=f"withdrawn by ann: {WHY}"):
        await AnswerHandler(connection).respond(run.wait_id, Answer(payload=1), ANYBODY, BOB)


# Extending


async def test_an_extended_wait_is_answered_after_its_first_deadline(
    connection: Connection, changes: WaitChanges
) -> None:
    run = await waiting_run(connection)
    [asked] = run.waits
    later = asked.deadline_at + 3600.5
    wait = await changes.extend(by_ann(run), later)
    assert wait == structs.replace(asked, deadline_at=later)
    shown = await run.now()
    assert shown.wait_deadline_at == later
    assert [each.deadline_at for each in shown.open_waits or []] == [later]
    [event] = [event for event in await run.events() if event.kind == "extended"]
    assert (event.actor, event.why, event.deadline_at) == (ANN, WHY, later)
    after_the_first = AnswerHandler(connection, clock=lambda: asked.deadline_at + 1)
    await after_the_first.respond(run.wait_id, Answer(payload=1), ANYBODY, ANN)
    assert await run.states() == ["answered"]


async def test_a_maintenance_that_knows_the_old_deadline_does_not_expire_an_extended_wait(
    connection: Connection, changes: WaitChanges
) -> None:
    run = await waiting_run(connection)
    [asked] = run.waits
    await changes.extend(by_ann(run), asked.deadline_at + 3600)
    taker = WaitMaintenance(
        connection,
        WaitsInBucket(connection),
        SeenRuns(connection),
        clock=lambda: asked.deadline_at + 1,
    )
    await taker._expire_some([run.wait_id])
    assert await run.states() == ["open"]


async def test_the_same_deadline_again_changes_nothing(connection: Connection, changes: WaitChanges) -> None:
    run = await waiting_run(connection)
    later = run.waits[0].deadline_at + 10
    await changes.extend(by_ann(run), later)
    before = await run.stored()
    await changes.extend(by_ann(run), later)
    assert await run.stored() == before
    assert (await run.kinds()).count("extended") == 1


@pytest.mark.parametrize(
    ("seconds", "expected"), [(-1.0, "later time than its deadline"), (367 * 86_400.0, "at most 366 days")]
)
async def test_an_earlier_or_endless_deadline_is_refused(
    connection: Connection, changes: WaitChanges, seconds: float, expected: str
) -> None:
    run = await waiting_run(connection)
    before = await run.stored()
    with pytest.raises(InvalidRequest) as caught:
        await changes.extend(by_ann(run), run.waits[0].deadline_at + seconds)
    [problem] = caught.value.problems
    assert problem.field == "deadline_at"
    assert expected in problem.message
    assert await run.stored() == before


# Reassigning


async def test_only_the_new_assignees_may_answer(connection: Connection, changes: WaitChanges) -> None:
    run = await waiting_run(connection, {"assignees": ["ann"]}, tenant_id="acme")
    await changes.reassign(ChangeRequest(run.wait_id, ANN_KEY, ANN), ["bob", "bob"])
    answers = AnswerHandler(connection)
    with pytest.raises(NotAssigned, match="bob"):
        await answers.respond(run.wait_id, Answer(payload=1), ANN_KEY, ANN)
    await answers.respond(run.wait_id, Answer(payload=1), BOB_KEY, BOB)
    [event] = [event for event in await run.events() if event.kind == "reassigned"]
    assert (event.actor, event.assignees, event.why) == (ANN, ["bob"], None)


# Waits that are not open


async def test_a_closed_wait_cannot_be_changed(connection: Connection, changes: WaitChanges) -> None:
    answered, cancelled = await waiting_run(connection), await waiting_run(connection)
    await AnswerHandler(connection).respond(answered.wait_id, Answer(payload=1), ANYBODY, BOB)
    await cancel_run(connection, changes._runs, cancelled.run_id, ANYBODY)
    await Continuations(connection).close_waits(cancelled.run_id)
    assert await cancelled.states() == ["cancelled"]
    for run in (answered, cancelled):
        before = (await run.stored(), await run.kinds())
        later = run.waits[0].deadline_at + 1
        for change in (
            changes.withdraw(by_ann(run)),
            changes.extend(by_ann(run), later),
            changes.reassign(by_ann(run), ["bob"]),
        ):
            with pytest.raises(WaitConflict):
                await change
        assert (await run.stored(), await run.kinds()) == before


@pytest.mark.parametrize("change", ["withdraw", "extend", "reassign"])
async def test_a_change_after_the_deadline_expires_the_wait(connection: Connection, change: str) -> None:
    """Also before anybody else has noticed."""
    run = await waiting_run(connection)
    deadline = run.waits[0].deadline_at
    changes = WaitChanges(connection, clock=lambda: deadline)
    arguments: dict[str, Any] = {"withdraw": (), "extend": (deadline + 10,), "reassign": (["bob"],)}
    with pytest.raises(WaitExpired):
        await getattr(changes, change)(by_ann(run), *arguments[change])
    assert await run.states() == ["expired"]
    assert (await run.now()).reason == "human_timeout"


async def test_a_wait_of_another_tenant_is_not_found(connection: Connection, changes: WaitChanges) -> None:
    run = await waiting_run(connection, tenant_id="acme")
    before = await run.stored()
    with pytest.raises(WaitNotFound):
        await changes.withdraw(ChangeRequest(run.wait_id, STRANGER, ANN, WHY))
    with pytest.raises(WaitNotFound):
        await changes.extend(ChangeRequest("no wait", ANYBODY, ANN), time.time())
    assert await run.stored() == before


async def test_of_an_answer_and_a_withdrawal_at_once_one_counts(
    connection: Connection, changes: WaitChanges
) -> None:
    answers = AnswerHandler(connection)
    outcomes = set()
    for _ in range(10):
        run = await waiting_run(connection)
        answered, withdrawn = await asyncio.gather(
            answers.respond(run.wait_id, Answer(payload=1), ANYBODY, BOB),
            changes.withdraw(by_ann(run)),
            return_exceptions=True,
        )
        [state] = await run.states()
        assert isinstance(answered, AnswerReceipt) == (state == "answered"), answered
        assert isinstance(withdrawn, WaitRecord) == (state == "withdrawn"), withdrawn
        assert isinstance(answered, PyocoError) or isinstance(withdrawn, PyocoError)
        assert (await run.kinds()).count(state) == 1
        outcomes.add(state)
    assert outcomes <= {"answered", "withdrawn"}


async def test_concurrent_changes_all_count(connection: Connection, changes: WaitChanges) -> None:
    run = await waiting_run(connection)
    later = run.waits[0].deadline_at + 60
    await asyncio.gather(
        changes.extend(by_ann(run), later),
        changes.reassign(by_ann(run), ["bob"]),
    )
    wait = await run.wait()
    assert (wait.deadline_at, wait.assignees) == (later, ["bob"])
    assert sorted(await run.kinds()) == ["extended", "opened", "reassigned"]


async def test_each_of_several_extensions_is_published_from_the_outbox(
    connection: Connection, changes: WaitChanges, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events of one kind are told apart by their ids."""
    run = await waiting_run(connection)
    deadline = run.waits[0].deadline_at
    events = changes._continuations._events
    await changes.extend(by_ann(run), deadline + 1)

    async def unpublished(*_: Any) -> None: ...

    with monkeypatch.context() as patched:
        patched.setattr("pyoco_server.waits.wait_event_outbox.publish_outbox", unpublished)
        await changes.extend(by_ann(run), deadline + 2)
    assert (await run.kinds()).count("extended") == 1
    await flush_outbox(WaitStore(connection), events, run.wait_id)
    extended = [event.deadline_at for event in await run.events() if event.kind == "extended"]
    assert extended == [deadline + 1, deadline + 2]
    assert not (await run.stored()).outbox


# Over HTTP


async def post(gateway: RunningGateway, run: WaitingRun, change: str, **body: Any) -> httpx.Response:
    return await gateway.http.post(f"/waits/{run.wait_id}/{change}", json=body)


async def test_changes_over_http_return_the_wait_with_its_history(shared_gateway: RunningGateway) -> None:
    gateway = shared_gateway
    run = await waiting_run(gateway.inside.connection)
    later = run.waits[0].deadline_at + 60
    extended = (await post(gateway, run, "extend", deadline_at=later, reason="holiday")).json()
    assert extended["deadline_at"] == later
    reassigned = (await post(gateway, run, "reassign", assignees=["bob"])).json()
    assert reassigned["assignees"] == ["bob"]
    withdrawn = (await post(gateway, run, "withdraw", reason=WHY)).json()
    assert (withdrawn["state"], withdrawn["note"]) == ("withdrawn", WHY)
    kinds = [(event["kind"], event.get("why")) for event in withdrawn["events"]]
    assert kinds == [("opened", None), ("extended", "holiday"), ("reassigned", None), ("withdrawn", WHY)]
    explained = (await gateway.http.get(f"/runs/{run.run_id}/explain")).json()
    assert [finding["code"] for finding in explained["findings"]] == ["failed_human_withdrawn"]


@pytest.mark.parametrize(
    ("change", "body", "field"),
    [
        ("withdraw", {}, "reason"),
        ("withdraw", {"reason": ""}, "reason"),
        ("withdraw", {"reason": " \t"}, "reason"),
        ("extend", {}, "deadline_at"),
        ("extend", {"deadline_at": "tomorrow"}, "deadline_at"),
        ("extend", {"deadline_at": 1.0}, "deadline_at"),
        ("reassign", {"assignees": "bob"}, "assignees"),
        ("reassign", {"assignees": [""]}, "assignees"),
        ("reassign", {"assignees": ["bob"] * 101}, "assignees"),
    ],
)
async def test_a_wrong_body_names_its_field_and_changes_nothing(
    shared_gateway: RunningGateway, change: str, body: dict[str, Any], field: str
) -> None:
    run = await waiting_run(shared_gateway.inside.connection)
    before = await run.stored()
    answer = await post(shared_gateway, run, change, **body)
    assert answer.status_code == 422, answer.text
    assert field in answer.text
    assert await run.stored() == before
