"""Retrying a run that failed with human_timeout."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.runs.dead_letters import DeadLetters, LetterWindow
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable, RunNotFound, WaitConflict, WaitExpired, WaitNotFound
from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus, TaskStatus
from pyoco_server.records.waits.wait_models import Actor, WaitState
from pyoco_server.runs.lifecycle.tenancy import ANYBODY, Caller
from pyoco_server.waits.continuation import Continuations
from pyoco_server.waits.human.answers.answering import Answer, AnswerHandler
from pyoco_server.waits.human.reopen import retry_run
from tests.integration.waits.test_wait_expiry import maintaining
from tests.support.broker.connections import connected
from tests.support.broker.stored_waits import let_expire
from tests.support.running.gateway import running_gateway
from tests.support.running.waiting_runs import WaitingRun, waiting_run
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually

ANN = Actor(name="ann")
ONE = Answer(payload=1)


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def shared_config(shared_config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(shared_config, sweep_interval_sec=0.1)


@pytest.fixture
def connection(shared_connection: Connection) -> Connection:
    return shared_connection


async def failed_run(connection: Connection, *others: dict[str, Any], **fields: Any) -> WaitingRun:
    """A run whose first wait has expired."""
    run = await waiting_run(connection, {"timeout_sec": 90.0, "created_at": 0.0}, *others, **fields)
    await run.expires()
    return run


def awaited(snapshot: RunSnapshot) -> list[str]:
    return [wait.wait_id for wait in snapshot.open_waits or []]


async def test_the_run_waits_again_with_another_wait_and_all_that_it_has_done(connection: Connection) -> None:
    run = await waiting_run(connection, {"timeout_sec": 7200.0}, timeout_sec=500.0)
    entry = JournalEntry(key="load||1", task="load", attempt=1, started_at=1.0, ended_at=2.0)
    await Journal(connection).append("default", run.run_id, entry)
    await run.becomes(tasks={"load": TaskStatus.SUCCEEDED, "approve": TaskStatus.WAITING})
    old = run.waits[0]
    await run.expires()
    assert (await run.now()).tasks == {"load": TaskStatus.SUCCEEDED, "approve": TaskStatus.FAILED}

    began = time.time()
    again = await retry_run(connection, run.run_id, ANYBODY, ANN)
    assert again == await run.now()
    assert (again.status, again.reason, again.error, again.end_time) == (
        RunStatus.WAITING_HUMAN,
        None,
        None,
        None,
    )
    assert again.generation == run.snapshot.generation + 1
    assert again.tasks == {"load": TaskStatus.SUCCEEDED, "approve": TaskStatus.WAITING}
    [new_id] = awaited(again)
    new = await run.wait(new_id)
    assert (new.state, new.arming, new.message, new.node) == (WaitState.OPEN, 2, old.message, old.node)
    assert new.deadline_at - new.created_at == pytest.approx(7200.0)
    assert began <= new.created_at <= time.time()
    assert (again.wait_message, again.wait_deadline_at) == (new.message, new.deadline_at)
    # It keeps its results, and has no job in the queue.
    assert await Journal(connection).entries("default", run.run_id) == [entry]
    assert await run.jobs() == []
    opened = [event for event in await run.events() if event.kind == "opened"]
    assert [(event.wait_id, event.actor) for event in opened] == [(old.wait_id, None), (new_id, ANN)]

    # The old link is of no use.
    with pytest.raises(WaitExpired):
        await AnswerHandler(connection).respond(old.wait_id, ONE, ANYBODY, ANN)
    await AnswerHandler(connection).resume(run.run_id, 1, ANYBODY, ANN)
    [job] = await run.jobs()
    assert job.generation == again.generation


async def test_time_between_end_and_retry_does_not_count_against_the_timeout(
    connection: Connection,
) -> None:
    run = await failed_run(connection)
    over = await run.now()
    assert over.end_time is not None
    ended_at = over.end_time - 1000.0
    await run.becomes(end_time=ended_at, waited_sec=7.0)
    again = await retry_run(connection, run.run_id, ANYBODY, ANN)
    assert again.waited_sec == pytest.approx(7.0 + again.updated_at - ended_at)
    assert again.updated_at - ended_at >= 1000.0


async def test_a_wait_can_expire_and_be_reopened_repeatedly(connection: Connection) -> None:
    run = await failed_run(connection)
    for arming in (2, 3, 4):
        [wait_id] = awaited(await retry_run(connection, run.run_id, ANYBODY, ANN))
        wait = await run.wait(wait_id)
        assert wait.arming == arming
        await run.expires(wait)
        assert (await run.now()).reason == "human_timeout"


async def test_a_retry_with_a_lost_ack_is_done_although_its_wait_has_expired_again(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await failed_run(connection)
    replace_run = RunStore.replace

    async def stored_without_ack(store: RunStore, snapshot: RunSnapshot, **options: Any) -> int:
        monkeypatch.undo()
        await replace_run(store, snapshot, **options)
        await Continuations(connection).continue_run(run.run_id)
        await run.expires(await run.wait(awaited(snapshot)[0]))
        raise NatsUnavailable("the ack was lost")

    monkeypatch.setattr(RunStore, "replace", stored_without_ack)
    again = await retry_run(connection, run.run_id, ANYBODY, ANN)
    assert (again.status, again.generation) == (RunStatus.FAILED, 2)
    [wait_id] = awaited(await retry_run(connection, run.run_id, ANYBODY, ANN))
    assert (await run.wait(wait_id)).arming == 3


async def test_a_retry_reopens_closed_waits_and_keeps_answers(
    connection: Connection,
) -> None:
    run = await waiting_run(connection, {}, {}, {}, {"default": 5})
    late, closed, answered, defaulted = run.waits
    await AnswerHandler(connection).respond(answered.wait_id, ONE, ANYBODY, ANN)
    for wait in (defaulted, late):
        await run.expires(wait)
    assert await run.states() == ["expired", "cancelled", "answered", "expired"]
    again = await retry_run(connection, run.run_id, ANYBODY, ANN)
    waits = [await run.wait(wait_id) for wait_id in awaited(again)]
    # Unused answers count; used ones are not waited for again.
    assert [(wait.task, wait.arming, wait.resolved) for wait in waits] == [
        (late.task, 2, False),
        (closed.task, 2, False),
        (answered.task, 1, True),
        (defaulted.task, 1, True),
    ]
    assert {again.tasks[wait.task] for wait in waits} == {TaskStatus.WAITING}
    assert again.wait_message == late.message
    generations = [job.generation for job in await run.jobs()]
    assert generations[-1] == again.generation
    opened = [event.wait_id for event in await run.events() if event.kind == "opened"]
    assert opened[4:] == [wait.wait_id for wait in waits[:2]]


async def test_an_answer_that_its_task_has_read_does_not_continue_the_run(
    connection: Connection,
) -> None:
    run = await waiting_run(connection, {}, {}, {"task": "approve", "name": "second"})
    late, used, earlier = run.waits
    for wait in (used, earlier):
        await AnswerHandler(connection).respond(wait.wait_id, ONE, ANYBODY, ANN)
    await run.becomes(tasks={late.task: TaskStatus.WAITING, used.task: TaskStatus.SUCCEEDED})
    await run.expires()
    before = len(await run.jobs())
    again = await retry_run(connection, run.run_id, ANYBODY, ANN)
    # The other answer of the task that asks again is found when that one is there.
    assert [wait.task for wait in again.open_waits or []] == [late.task]
    assert again.tasks == {late.task: TaskStatus.WAITING, used.task: TaskStatus.SUCCEEDED}
    assert len(await run.jobs()) == before


async def test_the_dead_letter_goes_with_the_failure(connection: Connection) -> None:
    letters = DeadLetters(connection)
    other = await failed_run(connection)
    run = await failed_run(connection)

    async def newest(count: int) -> list[str | None]:
        found = [stored.letter.run_id async for window in letters.newest_first() for stored in window.letters]
        return found[:count]

    assert await newest(2) == [run.run_id, other.run_id]
    await retry_run(connection, run.run_id, ANYBODY, ANN)
    assert await newest(1) == [other.run_id]


async def test_only_a_run_that_failed_by_expiry_is_retried(connection: Connection) -> None:
    waits = await waiting_run(connection)
    broken = await waiting_run(connection)
    await broken.becomes(status=RunStatus.FAILED, reason="execution_error")
    cancelled = await waiting_run(connection)
    await cancelled.becomes(status=RunStatus.CANCELLED)
    for run in (waits, broken, cancelled):
        before = await run.now()
        with pytest.raises(WaitConflict) as caught:
            await retry_run(connection, run.run_id, ANYBODY, ANN)
        assert caught.value.word == "invalid_state"
        assert before.status in caught.value.detail
        assert await run.now() == before


async def test_a_run_whose_waits_are_gone_is_not_retried(connection: Connection) -> None:
    run = await failed_run(connection)
    await WaitStore(connection).remove_run(run.run_id)
    with pytest.raises(WaitConflict, match="rerun"):
        await retry_run(connection, run.run_id, ANYBODY, ANN)


async def test_a_run_of_another_tenant_cannot_be_retried(connection: Connection) -> None:
    run = await failed_run(connection, tenant_id="acme")
    with pytest.raises(RunNotFound):
        await retry_run(connection, run.run_id, Caller("other", "key", sees_all=False), ANN)
    await retry_run(connection, run.run_id, Caller("acme", "key", sees_all=False), ANN)


async def test_a_repetition_reads_dead_letters_only_while_the_run_still_waits(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dead letter of a run that was retried days ago may come after very many others."""
    run = await failed_run(connection)
    await retry_run(connection, run.run_id, ANYBODY, ANN)
    reads = 0
    newest_first = DeadLetters.newest_first

    def counted(letters: DeadLetters, **options: Any) -> AsyncIterator[LetterWindow]:
        nonlocal reads
        reads += 1
        return newest_first(letters, **options)

    monkeypatch.setattr(DeadLetters, "newest_first", counted)
    for status, reads_so_far in [("WAITING_HUMAN", 1), ("RUNNING", 1), ("COMPLETED", 1)]:
        await run.becomes(status=RunStatus(status))
        assert (await retry_run(connection, run.run_id, ANYBODY, ANN)).status == status
        assert reads == reads_so_far


async def test_concurrent_retries_reopen_once(
    shared_config: NatsBackendConfig, connection: Connection
) -> None:
    async with connected(shared_config) as other:
        for _ in range(10):
            run = await failed_run(connection)
            outcomes = await asyncio.gather(
                *(retry_run(each, run.run_id, ANYBODY, ANN) for each in (connection, other))
            )
            assert outcomes[0] == outcomes[1]
            assert len(await WaitStore(connection).of_run_from_leader(run.run_id)) == 2


async def test_a_retry_that_finds_the_waits_reopened_returns_what_another_one_has_done(
    shared_config: NatsBackendConfig, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    close_waits = Continuations.close_waits
    async with connected(shared_config) as other:
        run = await failed_run(connection)

        async def after_another_retry(self: Continuations, run_id: str) -> None:
            monkeypatch.setattr(Continuations, "close_waits", close_waits)
            await retry_run(other, run_id, ANYBODY, ANN)
            await close_waits(self, run_id)

        monkeypatch.setattr(Continuations, "close_waits", after_another_retry)
        again = await retry_run(connection, run.run_id, ANYBODY, ANN)
    assert again.status is RunStatus.WAITING_HUMAN
    assert len(await WaitStore(connection).of_run_from_leader(run.run_id)) == 2


async def test_a_gateway_that_dies_in_between_leaves_a_run_that_someone_can_answer(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    async def dies(*args: Any, **kwargs: Any) -> None:
        raise Killed

    run = await failed_run(connection)
    with monkeypatch.context() as patched:
        patched.setattr(Continuations, "reopen_waits", dies)
        with pytest.raises(Killed):
            await retry_run(connection, run.run_id, ANYBODY, ANN)
    now = await run.now()
    assert now.status is RunStatus.WAITING_HUMAN
    [wait_id] = awaited(now)
    with pytest.raises(WaitNotFound):
        await AnswerHandler(connection).respond(wait_id, ONE, ANYBODY, ANN)
    async with maintaining(connection) as maintained:
        await maintained.scans()
    wait = await run.wait(wait_id)
    assert (wait.deadline_at, wait.created_at) == (now.wait_deadline_at, now.waiting_since)
    assert await run.now() == now
    await AnswerHandler(connection).respond(wait_id, ONE, ANYBODY, ANN)
    assert len(await run.jobs()) == 1


async def test_closing_waits_of_an_ended_run_spares_reopened_ones(
    connection: Connection,
) -> None:
    run = await failed_run(connection)
    again = await retry_run(connection, run.run_id, ANYBODY, ANN)
    await Continuations(connection).close_waits(run.run_id)
    assert (await run.wait(awaited(again)[0])).state is WaitState.OPEN


async def test_an_answered_branch_continues_after_a_retry(
    config: NatsBackendConfig,
) -> None:
    config = replace(config, sweep_interval_sec=0.1)
    async with running_gateway(config) as gateway:
        async with serving_worker(config):
            run_id = await gateway.submit("two_branches", params={"soon_ms": 600_000})
            run = await gateway.reaches(run_id, "WAITING_HUMAN")
        ids = {wait["task"]: wait["wait_id"] for wait in run["open_waits"]}
        # Nobody is there to go on with it before the other one is too late.
        answers = AnswerHandler(gateway.inside.connection)
        await answers.respond(ids["later"], ONE, ANYBODY, ANN)
        await let_expire(WaitStore(gateway.inside.connection), ids["soon"])
        failed = await gateway.reaches(run_id, "FAILED")
        # It was answered, and has not continued.
        assert (failed["tasks"]["soon"], failed["tasks"]["later"]) == ("FAILED", "PENDING")
        again = await gateway.http.post(f"/runs/{run_id}/retry")
        assert again.status_code == 200, again.text

        async def other_branch_is_done() -> bool:
            now = (await gateway.http.get(f"/runs/{run_id}")).json()
            return bool(now["status"] == "WAITING_HUMAN" and now["tasks"]["after_later"] == "SUCCEEDED")

        async with serving_worker(config):
            await eventually(other_branch_is_done, describe="the answered branch goes on")
            now = (await gateway.http.get(f"/runs/{run_id}")).json()
            assert now["tasks"] == {
                "soon": "WAITING",
                "after_soon": "PENDING",
                "later": "SUCCEEDED",
                "after_later": "SUCCEEDED",
            }
            [wait] = now["open_waits"]
            await answers.respond(wait["wait_id"], ONE, ANYBODY, ANN)
            assert (await gateway.ends(run_id))["status"] == "COMPLETED"
