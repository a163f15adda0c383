"""Expiry and maintenance of waits: deadlines, and completing interrupted work."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from pyoco_server.broker.client.connection import Connection, PayloadTooLarge
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.wait_store import StoredWait, WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable, WaitConflict, WaitExpired
from pyoco_server.records.runs.run_models import DeliveryId, RunStatus, TaskStatus, WaitKind, encode, job_of
from pyoco_server.records.waits.wait_models import Actor, OnTimeout, WaitRecord, WaitState
from pyoco_server.runs.lifecycle.cancel_request import cancel_run
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.runs.lifecycle.waiting_state import open_waits
from pyoco_server.waits.continuation import Continuations
from pyoco_server.waits.human.answers.answering import Answer, AnswerHandler
from pyoco_server.waits.index.wait_index import WaitWrite
from pyoco_server.waits.wait_maintenance import WaitMaintenance
from pyoco_server.waits.wait_transitions import due_notice, event_for_state, expired
from tests.support.broker.connections import connected
from tests.support.broker.waits_in_bucket import SeenRuns, WaitsInBucket
from tests.support.clocks import Clock
from tests.support.running.waiting_runs import WaitingRun, jobs_in_queue, waiting_run
from tests.support.waiting import eventually

ANN = Actor(name="ann")
ONE = Answer(payload=1)


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def shared_config(shared_config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(shared_config, sweep_interval_sec=0.1)


@pytest.fixture
def connection(empty_connection: Connection) -> Connection:
    return empty_connection


class Maintained:
    """A maintenance loop, and what it reads."""

    def __init__(self, connection: Connection, **options: Any) -> None:
        self.waits = WaitsInBucket(connection)
        self.runs = SeenRuns(connection)
        # Without a feed of waits, each round checks everything.
        options = {"check_all_sec": 0.0, **options}
        self.maintenance = WaitMaintenance(connection, self.waits, self.runs, **options)

    async def scans(self, count: int = 2) -> None:
        """Wait for so many scans from now on."""
        await self.runs.look()
        goal = self.maintenance.rounds + count + 1
        await eventually(lambda: self.maintenance.rounds >= goal, describe="the maintenance has scanned")


@asynccontextmanager
async def maintaining(connection: Connection, **options: Any) -> AsyncIterator[Maintained]:
    maintained = Maintained(connection, **options)
    await maintained.runs.look()
    await maintained.maintenance.start()
    try:
        yield maintained
    finally:
        await maintained.maintenance.close()


@asynccontextmanager
async def scanning_once(connection: Connection) -> AsyncIterator[Maintained]:
    """A maintenance loop that scans once; after that only a deadline or `wake` runs it."""
    slow = replace(connection.config, sweep_interval_sec=60.0)
    async with connected(slow) as other, maintaining(other) as maintained:
        await eventually(lambda: maintained.maintenance.rounds, describe="the first scan")
        maintained.maintenance._next_round_at = time.monotonic() + 3600
        yield maintained


async def dead_letters(connection: Connection) -> int:
    return (await stream_state(connection, "PYOCO_DLQ")).messages


# The moment of the deadline


async def test_an_answer_counts_strictly_before_the_deadline(connection: Connection) -> None:
    for after_ms, counts in ((-1, True), (0, False), (1, False)):
        run = await waiting_run(connection)
        answers = AnswerHandler(connection, clock=Clock(run.waits[0].deadline_at + after_ms / 1000))
        if counts:
            await answers.respond(run.wait_id, ONE, ANYBODY, ANN)
        else:
            with pytest.raises(WaitExpired):
                await answers.respond(run.wait_id, ONE, ANYBODY, ANN)
        assert (await run.wait()).state == ("answered" if counts else "expired")
        assert len(await run.jobs()) == counts


async def test_an_answer_after_an_unprocessed_deadline_expires_the_wait(connection: Connection) -> None:
    run = await waiting_run(connection, {"timeout_sec": -1}, {})
    late, other = run.waits
    with pytest.raises(WaitExpired):
        await AnswerHandler(connection).respond(late.wait_id, ONE, ANYBODY, ANN)
    assert await run.states() == ["expired", "cancelled"]
    now = await run.now()
    assert (now.status, now.reason) == (RunStatus.FAILED, "human_timeout")
    assert now.error is not None
    assert late.message in now.error
    # Nothing went wrong with the other one: its answer is not needed any more.
    assert now.tasks == {late.task: TaskStatus.FAILED, other.task: TaskStatus.CANCELLED}
    assert (now.open_waits, now.wait_message, now.wait_deadline_at) == ([], None, None)
    assert await dead_letters(connection) == 1
    assert await run.kinds() == ["opened", "opened", "expired", "cancelled", "refused"]
    for wait_id, error in ((late.wait_id, WaitExpired), (other.wait_id, WaitConflict)):
        with pytest.raises(error):
            await AnswerHandler(connection).respond(wait_id, ONE, ANYBODY, ANN)
    assert await jobs_in_queue(connection) == []


async def test_each_write_of_a_wake_gives_way_to_submits(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submit that comes in the middle of a wake waits for one write of it."""
    run = await waiting_run(connection, {"timeout_sec": -1, "default": 7})
    stored: list[tuple[str, int, RunStatus]] = []

    async def give_way() -> None:
        stored.append(((await run.wait()).state, len(await run.jobs()), (await run.now()).status))

    monkeypatch.setattr(connection.urgent, "give_way", give_way)

    async def continued() -> bool:
        return (await run.now()).status is RunStatus.PENDING

    async with maintaining(connection):
        await eventually(continued, describe="the run has continued")
    # Before it begins, and before the wait, the job and the run are written.
    before = [("open", 0), ("open", 0), ("expired", 0), ("expired", 1)]
    assert stored[:4] == [(*each, RunStatus.WAITING_HUMAN) for each in before]


async def test_an_answer_of_a_person_gives_way_to_nothing(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await waiting_run(connection)

    async def give_way() -> None:
        pytest.fail("a person waits for this")

    monkeypatch.setattr(connection.urgent, "give_way", give_way)
    await AnswerHandler(connection).respond(run.wait_id, ONE, ANYBODY, ANN)
    await run.has_jobs()


async def test_a_default_answers_an_expired_wait(connection: Connection) -> None:
    defaults = (None, False, {"n": 0})
    runs = [await waiting_run(connection, {"timeout_sec": -1, "default": value}) for value in defaults]
    async with maintaining(connection):
        for run in runs:
            await run.has_jobs()
    for run, default in zip(runs, defaults, strict=True):
        wait = await run.wait()
        assert (wait.state, wait.resolved, wait.answer) == ("expired", True, default)
        now = await run.now()
        assert (now.status, now.open_waits, now.wait_message) == (RunStatus.PENDING, [], None)
        with pytest.raises(WaitExpired):
            await AnswerHandler(connection).respond(run.wait_id, ONE, ANYBODY, ANN)


async def test_a_task_that_takes_the_timeout_itself_is_continued(connection: Connection) -> None:
    """With an exception that it may catch, or that fails it without stopping the flow."""
    for on_timeout in ("raise", "isolate"):
        run = await waiting_run(connection, {"timeout_sec": -1, "on_timeout": OnTimeout(on_timeout)})
        async with maintaining(connection):
            await run.has_jobs()
        wait = await run.wait()
        assert (wait.state, wait.resolved, wait.timed_out) == ("expired", True, True)
        assert (await run.now()).status is not RunStatus.FAILED


# The maintenance's clock


async def test_a_wait_expires_at_its_deadline_and_not_with_the_next_scan(connection: Connection) -> None:
    async with scanning_once(connection) as maintained:
        run = await waiting_run(connection, {"timeout_sec": 0.2})
        maintained.maintenance.wake()
        await run.ends()
    wait = await run.wait()
    assert wait.decided_at is not None
    assert wait.deadline_at <= wait.decided_at
    assert maintained.maintenance.rounds == 1
    assert (await run.now()).reason == "human_timeout"


async def test_a_timer_that_fires_early_is_set_again(connection: Connection) -> None:
    clock = Clock(time.time())
    run = await waiting_run(connection, {"timeout_sec": 0.05})
    async with maintaining(connection, clock=clock) as maintained:
        await eventually(lambda: time.time() > run.waits[0].deadline_at, describe="its time on other clocks")
        await maintained.scans()
        assert await run.states() == ["open"]
        clock.now = run.waits[0].deadline_at - 0.001
        await maintained.scans()
        assert await run.states() == ["open"]
        clock.now = run.waits[0].deadline_at
        await run.ends()
    assert (await run.wait()).decided_at == run.waits[0].deadline_at


async def test_a_wake_costs_three_writes_and_all_are_read_with_two_requests(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep = {"timeout_sec": -1, "kind": WaitKind.SLEEP, "default": None}
    runs = [await waiting_run(connection, sleep) for _ in range(3)]
    maintenance = Maintained(connection).maintenance
    subjects = _requested(monkeypatch, connection)
    await maintenance._expire_some([run.wait_id for run in runs])
    reads = ["$JS.API.DIRECT.GET.KV_pyoco_waits", "$JS.API.DIRECT.GET.KV_pyoco_runs"]
    assert subjects[:2] == reads
    written = [
        [f"$KV.pyoco_waits.{run.wait_id}", f"pyoco.work.{run.snapshot.tag}", f"$KV.pyoco_runs.{run.run_id}"]
        for run in runs
    ]
    assert sorted(subjects[2:]) == sorted(subject for each in written for subject in each)
    for run in runs:
        assert (await run.now()).status is RunStatus.PENDING


async def test_a_run_that_was_written_while_its_wait_ended_is_read_again(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is read before the wait is written: perhaps it was written, or cancelled, since."""
    parked, cancelled = [await waiting_run(connection, {"timeout_sec": -1, "default": None}) for _ in "ab"]
    runs, maintenance = RunStore(connection), Maintained(connection).maintenance
    write = Continuations.write_transition

    async def written_before(self: Continuations, wait: StoredWait, *args: Any) -> bool:
        if wait.record.run_id == cancelled.run_id:
            await cancel_run(connection, runs, cancelled.run_id, ANYBODY)
        else:
            now = await runs.get_from_leader(parked.run_id)
            assert now is not None
            await runs.replace(structs.replace(now.snapshot, updated_at=1.0), revision=now.revision)
        return await write(self, wait, *args)

    monkeypatch.setattr(Continuations, "write_transition", written_before)
    for run in (parked, cancelled):
        await maintenance._expire_some([run.wait_id])
    after = await parked.now()
    assert (after.status, len(await parked.jobs())) == (RunStatus.PENDING, 1)
    assert (await cancelled.now()).status is RunStatus.CANCELLED


async def test_what_this_gateway_has_completed_is_not_checked_again(connection: Connection) -> None:
    run = await waiting_run(connection, {"timeout_sec": -1, "default": None})
    maintenance = Maintained(connection).maintenance
    await maintenance._expire_some([run.wait_id])
    maintenance.take([WaitWrite(run.wait_id, 1, None)])
    assert maintenance._to_check == {}
    # A later write of it is of somebody else.
    maintenance.take([WaitWrite(run.wait_id, 2, None)])
    assert list(maintenance._to_check) == [run.run_id]


async def test_what_this_gateway_has_not_completed_is_checked_again(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await waiting_run(connection, {"timeout_sec": -1, "default": None})
    maintenance = Maintained(connection).maintenance

    async def fails(*_: object, **__: object) -> bool:
        # The feed has shown the wait's end already.
        maintenance.take([WaitWrite(run.wait_id, 1, None)])
        raise NatsUnavailable("gone")

    monkeypatch.setattr(Continuations, "continue_run", fails)
    with pytest.raises(NatsUnavailable):
        await maintenance._expire_some([run.wait_id])
    assert list(maintenance._to_check) == [run.run_id]


def _requested(monkeypatch: pytest.MonkeyPatch, connection: Connection) -> list[str]:
    """The subjects of all requests of the connection from now on."""
    subjects: list[str] = []
    request, request_many = Connection.request, Connection.request_many

    def record(asking: Connection, subject: str) -> None:
        # Gateways of other tests may run in this process.
        if asking is connection:
            subjects.append(subject)

    async def recorded(self: Connection, subject: str, *args: Any) -> Any:
        record(self, subject)
        return await request(self, subject, *args)

    def recorded_many(self: Connection, subject: str, *args: Any, **options: Any) -> Any:
        record(self, subject)
        return request_many(self, subject, *args, **options)

    monkeypatch.setattr(Connection, "request", recorded)
    monkeypatch.setattr(Connection, "request_many", recorded_many)
    return subjects


async def test_an_index_that_lags_expires_nothing_twice(connection: Connection) -> None:
    class Behind(WaitsInBucket):
        async def due(self, now: float, limit: int) -> list[str]:
            return [run.wait_id for run in runs]

    runs = [await waiting_run(connection, {"timeout_sec": timeout}) for timeout in (-1, 3600)]
    maintained = Maintained(connection)
    maintained.maintenance._index = Behind(connection)
    await maintained.maintenance.start()
    await runs[0].ends()
    # The runs are not known yet, so nothing is closed or continued because of them.
    await eventually(lambda: maintained.maintenance.rounds, describe="the first scan")
    await maintained.scans(3)
    await maintained.maintenance.close()
    assert await runs[0].kinds() == ["opened", "expired"]
    # And nothing that is not due.
    assert await runs[1].states() == ["open"]


async def test_two_maintenance_loops_expire_each_wait_once(
    shared_config: NatsBackendConfig, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those whose deadline passed while no gateway ran, and more than are asked for at once."""
    monkeypatch.setattr("pyoco_server.waits.wait_maintenance._BATCH", 7)
    runs = [
        await waiting_run(connection, {"timeout_sec": timeout}, {"timeout_sec": timeout})
        for timeout in [-3600.0] * 15 + [0.3] * 15
    ]
    async with connected(shared_config) as other, maintaining(connection) as one, maintaining(other) as two:
        for run in runs:
            await run.ends()
        await one.scans()
        await two.scans()
    for run in runs:
        states = await run.states()
        assert "expired" in states
        assert set(states) <= {"expired", "cancelled"}
        assert (await run.now()).reason == "human_timeout"
        assert sorted(await run.kinds()) == sorted([*states, "opened", "opened"])
    assert await dead_letters(connection) == len(runs)


async def test_a_failing_wait_does_not_block_other_expiries(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken, too_large, good = [
        await waiting_run(connection, {"timeout_sec": timeout}) for timeout in (-1, -1, 0.5)
    ]
    continue_run, replace_wait = Continuations.continue_run, WaitStore.replace

    async def failing_continue(self: Continuations, run_id: str, *, job_is_queued: bool = False) -> None:
        if run_id == broken.run_id:
            raise ValueError("what is this?")
        await continue_run(self, run_id, job_is_queued=job_is_queued)

    async def failing_replace(self: WaitStore, record: WaitRecord, revision: int, **outbox: Any) -> int:
        if record.run_id == too_large.run_id:
            raise PayloadTooLarge("2000000 bytes, the server takes 1048576")
        return await replace_wait(self, record, revision, **outbox)

    monkeypatch.setattr(Continuations, "continue_run", failing_continue)
    monkeypatch.setattr(WaitStore, "replace", failing_replace)
    async with maintaining(connection) as maintained:
        await good.ends()
        await maintained.scans()
    assert "processing a wait failed" in caplog.text
    assert not (await broken.now()).status.terminal
    # Once, not in every round; and NATS is not away.
    [line] = [line for line in caplog.records if getattr(line, "wait_id", "") == too_large.wait_id]
    assert "larger than NATS takes" in line.getMessage()
    assert "not available" not in line.getMessage()
    assert "maintenance of waits failed" not in caplog.text


async def test_a_failing_job_is_reported_once_and_does_not_block_others(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = 0

    async def away(self: WaitsInBucket, now: float, limit: int) -> list[str]:
        nonlocal attempts
        attempts += 1
        raise NatsUnavailable("NATS is away")

    monkeypatch.setattr(WaitsInBucket, "due", away)
    over, answered = await waiting_run(connection), await waiting_run(connection)
    await over.becomes(status=RunStatus.CANCELLED)
    await decided_only(answered)
    async with maintaining(connection) as maintained:
        await maintained.scans()
        await over.has_states("cancelled")
        await answered.has_jobs()
        await eventually(lambda: attempts > 2, describe="it tries again")
    assert sum("maintenance of waits failed" in text for text in caplog.messages) == 1


# Cancel


async def test_a_run_that_waits_is_cancelled_without_any_worker(connection: Connection) -> None:
    async with scanning_once(connection) as maintained:
        run = await waiting_run(connection, {}, {}, timeout_sec=5.0)
        await maintained.runs.look()
        await cancel_run(connection, RunStore(connection), run.run_id, ANYBODY)
        now = await run.now()
        assert now.status is RunStatus.CANCELLED
        assert set(now.tasks.values()) == {TaskStatus.CANCELLED}
        assert (now.open_waits, now.wait_message) == ([], None)
        await maintained.runs.look()
        await run.has_states("cancelled", "cancelled")
    assert sorted(await run.kinds()) == ["cancelled", "cancelled", "opened", "opened"]
    with pytest.raises(WaitConflict):
        await AnswerHandler(connection).respond(run.waits[0].wait_id, ONE, ANYBODY, ANN)


async def test_an_expiry_and_a_cancel_at_once_leave_one_end(
    shared_config: NatsBackendConfig, connection: Connection
) -> None:
    runs = [await waiting_run(connection, {"timeout_sec": 0.2}, {}) for _ in range(30)]
    async with connected(shared_config) as other, maintaining(other) as maintained:
        await eventually(lambda: time.time() > runs[-1].waits[0].deadline_at - 0.01, describe="the deadlines")
        await asyncio.gather(
            *(cancel_run(connection, RunStore(connection), run.run_id, ANYBODY) for run in runs)
        )
        for run in runs:
            await run.ends()
        await maintained.scans()
    for run in runs:
        states, now = await run.states(), await run.now()
        assert "open" not in states
        if now.status is RunStatus.FAILED:
            assert (now.reason, states[0]) == ("human_timeout", "expired")
        else:
            assert (now.status, now.reason) == (RunStatus.CANCELLED, None)
        assert sorted(await run.kinds()) == sorted([*states, "opened", "opened"])


async def test_a_cancel_wins_over_an_answer_that_was_not_followed_by_anything(connection: Connection) -> None:
    run = await waiting_run(connection)
    await decided_only(run)
    await cancel_run(connection, RunStore(connection), run.run_id, ANYBODY)
    async with maintaining(connection) as maintained:
        await maintained.scans()
    assert (await run.now()).status is RunStatus.CANCELLED
    assert await run.states() == ["answered"]
    assert await run.jobs() == []


# What was left undone


async def decided_only(run: WaitingRun, which: WaitRecord | None = None, *, late: bool = False) -> None:
    """A gateway that is killed right after the write that decides a wait (the first)."""
    wait = await run.stored((which or run.waits[0]).wait_id)
    now = time.time()
    outcome = expired(wait.record, at=now)
    if not late:
        outcome = structs.replace(outcome, state=WaitState.ANSWERED, decided_by=ANN, payload=1)
    store = WaitStore(run.connection)
    await store.replace(outcome, wait.revision, outbox=[event_for_state(outcome)])


async def test_an_answer_continues_the_run_after_its_gateway_died(connection: Connection) -> None:
    run = await waiting_run(connection, {}, {})
    async with maintaining(connection) as maintained:
        await maintained.scans()
        await decided_only(run)
        await run.has_jobs()
        await maintained.scans()
    assert await run.kinds() == ["opened", "opened", "answered"]
    assert await run.states() == ["answered", "open"]
    now = await run.now()
    assert (now.status, now.open_waits) == (RunStatus.PENDING, (run.snapshot.open_waits or [])[1:])


async def test_a_run_whose_wait_is_lost_is_continued_to_ask_again(connection: Connection) -> None:
    """NATS has lost the wait, as with its newest messages in a power failure, and not the run."""
    run = await waiting_run(connection)
    await WaitStore(connection).purge_run(run.run_id)
    async with maintaining(connection) as maintained:
        await run.has_jobs()
        await maintained.scans()
    now = await run.now()
    assert (now.status, now.open_waits) == (RunStatus.PENDING, [])
    assert len(await run.jobs()) == 1


class CountedQueries(WaitsInBucket):
    """Counts the queries whose cost follows how many waits or runs there are."""

    pages = 0

    async def open_after(self, wait_id: str, limit: int) -> list[str]:
        self.pages += 1
        return await super().open_after(wait_id, limit)


async def checks_only_what_was_written(maintained: Maintained) -> CountedQueries:
    """From now on, everything is not checked again."""
    counted = CountedQueries(maintained.waits._connection)
    maintained.maintenance._index = counted
    await maintained.scans()
    return counted


async def test_a_run_is_checked_when_its_wait_was_decided(connection: Connection) -> None:
    """By another gateway, which died before it continued the run."""
    run = await waiting_run(connection)
    async with maintaining(connection, check_all_sec=3600.0) as maintained:
        counted = await checks_only_what_was_written(maintained)
        pages = counted.pages
        await decided_only(run)
        await maintained.scans()
        assert (await run.jobs(), counted.pages) == ([], pages)
        maintained.maintenance.take([WaitWrite(run.wait_id, 2, None)])
        await run.has_jobs()
        assert counted.pages == pages


async def test_a_run_is_checked_when_it_is_parked_for_a_wait_that_is_decided(connection: Connection) -> None:
    """The answer came between the worker's last read and the write of the snapshot."""
    run = await waiting_run(connection, suspended=False)
    async with maintaining(connection, check_all_sec=3600.0) as maintained:
        counted = await checks_only_what_was_written(maintained)
        pages = counted.pages
        await decided_only(run)
        await run.becomes(
            status=RunStatus.WAITING_HUMAN, generation=1, delivery=None, open_waits=open_waits(run.waits)
        )
        await maintained.scans()
        await run.has_jobs()
        assert counted.pages == pages


async def test_waits_of_an_ended_run_are_closed_when_they_were_written(connection: Connection) -> None:
    async with maintaining(connection, check_all_sec=3600.0) as maintained:
        counted = await checks_only_what_was_written(maintained)
        pages = counted.pages
        run = await waiting_run(connection, suspended=False)
        await run.becomes(status=RunStatus.COMPLETED)
        await maintained.scans()
        assert await run.states() == ["open"]
        maintained.maintenance.take([WaitWrite(run.wait_id, 1, None)])
        await run.has_states("cancelled")
        assert counted.pages == pages


async def test_everything_is_checked_after_an_interruption(connection: Connection) -> None:
    run = await waiting_run(connection)
    async with maintaining(connection, check_all_sec=3600.0) as maintained:
        await maintained.scans()
        await decided_only(run)
        maintained.maintenance._interruptions -= 1
        await run.has_jobs()


async def test_reminder_and_escalation_are_recorded_once_by_several_gateways(
    shared_config: NatsBackendConfig, connection: Connection
) -> None:
    now = time.time()
    due = {"remind_at": now - 2, "escalate_at": now - 1}
    run, later, closed = [
        await waiting_run(connection, fields)
        for fields in (due, {"remind_at": now + 3600}, {**due, "timeout_sec": -1, "default": 1})
    ]
    async with connected(shared_config) as other, maintaining(connection) as one, maintaining(other) as two:
        await one.scans(2)
        await two.scans(2)
        await run.has_kinds("opened", "reminded", "escalated")
        await one.scans(2)
    assert await run.kinds() == ["opened", "reminded", "escalated"]
    wait = await run.wait()
    assert (wait.state, wait.notice_at) == ("open", None)
    assert wait.reminded_at is not None
    assert await later.kinds() == ["opened"]
    # One that is past its deadline is not reminded of.
    assert await closed.kinds() == ["opened", "expired"]


async def test_a_reminder_is_sent_at_its_time_and_not_with_the_next_scan(connection: Connection) -> None:
    async with scanning_once(connection) as maintained:
        run = await waiting_run(connection, {"remind_at": time.time() + 0.2})
        maintained.maintenance.wake()
        await run.has_kinds("opened", "reminded")
    assert maintained.maintenance.rounds == 1


async def test_a_reminder_whose_gateway_died_is_published_once(connection: Connection) -> None:
    """Its event is in the outbox of the wait."""
    run = await waiting_run(connection, {"remind_at": time.time() - 1})
    wait = await run.stored()
    due = due_notice(wait.record, at=time.time())
    assert due is not None
    await WaitStore(connection).replace(due[0], wait.revision, outbox=[due[1]])
    async with maintaining(connection) as maintained:
        await run.has_kinds("opened", "reminded")
        await maintained.scans(3)
    assert await run.kinds() == ["opened", "reminded"]


async def test_an_expiry_whose_gateway_died_ends_the_run(connection: Connection) -> None:
    run = await waiting_run(connection, {}, {})
    await decided_only(run, late=True)
    async with maintaining(connection):
        await run.ends()
        await run.has_states("expired", "cancelled")
    assert (await run.now()).reason == "human_timeout"


async def test_an_unclaimed_job_is_not_published_again(connection: Connection) -> None:
    """Not even when the server has forgotten its id: so it is published here without one."""
    run = await waiting_run(connection)
    await decided_only(run)
    job = encode(job_of(run.snapshot, None))
    await publish_acked(connection, "pyoco.work.default", job)
    async with maintaining(connection) as maintained:
        await maintained.scans(5)
    assert len(await run.jobs()) == 1
    # The gateway that published it died before it wrote the run.
    now = await run.now()
    assert (now.status, now.open_waits) == (RunStatus.PENDING, [])


async def test_a_run_that_is_queued_again_is_no_question_if_its_gateway_died(connection: Connection) -> None:
    """The second answer to a run that is PENDING since the first one."""
    run = await waiting_run(connection, {}, {})
    first, second = run.waits
    await AnswerHandler(connection).respond(first.wait_id, ONE, ANYBODY, ANN)
    assert [each.wait_id for each in (await run.now()).open_waits or []] == [second.wait_id]
    await decided_only(run, second)
    async with maintaining(connection) as maintained:
        await maintained.scans(3)
    assert (await run.now()).open_waits == []
    assert len(await run.jobs()) == 1


async def test_two_gateways_complete_undone_work_once(
    shared_config: NatsBackendConfig, connection: Connection
) -> None:
    runs = [await waiting_run(connection) for _ in range(20)]
    for run in runs:
        await decided_only(run)
    async with connected(shared_config) as other, maintaining(connection) as one, maintaining(other) as two:
        await one.scans(3)
        await two.scans(3)
    assert len(await jobs_in_queue(connection)) == len(runs)


async def test_running_and_waiting_runs_are_not_continued(connection: Connection) -> None:
    waits = await waiting_run(connection)
    has_more = await waiting_run(connection)
    await decided_only(has_more)
    await has_more.becomes(status=RunStatus.RUNNING, delivery=DeliveryId(7, 1), open_waits=[])
    asking = await waiting_run(connection, suspended=False)
    async with maintaining(connection) as maintained:
        await maintained.scans(4)
    assert await jobs_in_queue(connection) == []
    assert [await waits.states(), await asking.states()] == [["open"], ["open"]]


async def test_open_waits_of_runs_that_have_ended_are_found(connection: Connection) -> None:
    ended, deleted = [await waiting_run(connection, {}, {}, suspended=False) for _ in range(2)]
    for run in (ended, deleted):
        await run.becomes(status=RunStatus.COMPLETED)
    stored = await RunStore(connection).get_from_leader(deleted.run_id)
    assert stored is not None
    await RunStore(connection).delete(deleted.run_id, revision=stored.revision)
    async with maintaining(connection) as maintained:
        await maintained.scans()
    for run in (ended, deleted):
        assert await run.states() == ["cancelled", "cancelled"]


async def test_waits_of_a_run_that_a_newer_gateway_wrote_stay_open(connection: Connection) -> None:
    run = await waiting_run(connection)
    strange = encode(structs.replace(run.snapshot, flow_name="x")).replace(b"WAITING_HUMAN", b"DREAMING")
    await publish_acked(connection, f"$KV.pyoco_runs.{run.run_id}", strange)
    await Continuations(connection).close_waits(run.run_id)
    await Continuations(connection).continue_run(run.run_id)
    assert await run.states() == ["open"]
