"""The runner: each occurrence is decided once and started once, whichever gateway does it, or dies."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.causes import Cause, CauseKind
from pyoco_server.records.runs.run_models import DeliveryId, RunStatus
from pyoco_server.records.schedules.schedule_models import (
    DecisionOutcome,
    Overlap,
    ScheduleSpec,
    SkipReason,
    StartedRun,
    schedule_key,
)
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.runs.lifecycle.durable_start import DurableStarter
from pyoco_server.schedules.schedule_decider import MAX_PER_STEP
from pyoco_server.schedules.schedule_directory import GRACE_SEC
from pyoco_server.schedules.schedule_runner import ScheduleRunner
from pyoco_server.schedules.schedule_transitions import triggered, with_backfill
from tests.support.running.schedule_gateways import START, ScheduleWorld, schedule_world

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def world(empty_connection: Connection) -> AsyncIterator[ScheduleWorld]:
    async with schedule_world(empty_connection) as world:
        yield world


async def test_an_occurrence_becomes_a_run(world: ScheduleWorld) -> None:
    fields: dict[str, Any] = {"params": {"x": 1}, "tags": ["etl"], "tag": "night", "timeout_sec": 60.0}
    await world.create(tenant_id="acme", api_key_id="key1", **fields)
    gateway = await world.gateway()
    await gateway.look(9)
    assert await world.started(schedule_key("acme", "tick")) == []
    await gateway.look(10.5)
    (run,) = await world.started(schedule_key("acme", "tick"))
    assert run.status is RunStatus.PENDING
    assert run.cause == Cause(kind=CauseKind.SCHEDULE, id="tick", at=START + 10)
    assert (run.params, run.tags, run.tag, run.timeout_sec) == ({"x": 1}, ["etl"], "night", 60.0)
    assert (run.tenant_id, run.api_key_id, run.submitted_at) == ("acme", "key1", START + 10.5)
    record = await world.record(schedule_key("acme", "tick"))
    assert (record.starts, record.cursor, record.revision) == ([], START + 10, 1)
    # Once: looking again changes nothing.
    before = await world.stored(schedule_key("acme", "tick"))
    await gateway.look(19)
    assert await world.stored(schedule_key("acme", "tick")) == before


async def test_several_gateways_start_each_occurrence_once(
    world: ScheduleWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[str] = []
    publish = WorkQueue.publish

    async def counted(self: WorkQueue, job: Any, **options: Any) -> Any:
        published.append(job.run_id)
        return await publish(self, job, **options)

    monkeypatch.setattr(WorkQueue, "publish", counted)
    keys = [await world.create(f"tick{number}", overlap=Overlap.ALLOW_ALL) for number in range(5)]
    gateways = [await world.gateway() for _ in range(3)]
    for at in (10, 20, 30):
        world.clock.at = START + at
        await asyncio.gather(*(gateway.look() for gateway in gateways))
    for key in keys:
        runs = await world.started(key)
        assert [run.cause.at - START for run in runs if isinstance(run.cause, Cause) and run.cause.at] == [
            10,
            20,
            30,
        ]
        assert (await world.record(key)).counts == {"started": 3}
    assert sorted(published) == sorted(set(published))
    assert len(published) == 15


async def test_a_decided_start_is_completed_by_another_gateway(
    world: ScheduleWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first gateway dies between its decision and the start."""
    await world.create()
    first, second = await world.gateway(), await world.gateway()

    async def dies(*_: Any) -> bool:
        raise NatsUnavailable("killed here")

    with monkeypatch.context() as patched:
        patched.setattr(DurableStarter, "ensure_run", dies)
        with pytest.raises(NatsUnavailable):
            await first.look(10)
    (start,) = (await world.record()).starts
    assert not await world.runs.exists(start.run_id)
    # It has a moment to complete it.
    await second.look(10 + GRACE_SEC - 0.1)
    assert not await world.runs.exists(start.run_id)
    await second.look(10 + GRACE_SEC)
    assert (await world.run(start.run_id)).status is RunStatus.PENDING
    record = await world.record()
    assert (record.starts, record.counts) == ([], {"started": 1})


async def test_a_gateway_that_dies_after_the_start_starts_nothing_twice(
    world: ScheduleWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.create(overlap=Overlap.ALLOW_ALL)
    first, second = await world.gateway(), await world.gateway()
    ensure_run = DurableStarter.ensure_run

    async def dies(self: DurableStarter, job: Any) -> bool:
        await ensure_run(self, job)
        raise NatsUnavailable("killed here")

    with monkeypatch.context() as patched:
        patched.setattr(DurableStarter, "ensure_run", dies)
        with pytest.raises(NatsUnavailable):
            await first.look(10)
    (start,) = (await world.record()).starts
    await world.run_becomes(start.run_id, RunStatus.COMPLETED)
    await second.look(15)
    assert (await world.run(start.run_id)).status is RunStatus.COMPLETED
    assert (await world.record()).starts == []


async def test_an_earlier_run_is_asked_of_the_leader(world: ScheduleWorld) -> None:
    await world.create()
    gateway = await world.gateway()
    await gateway.look(10)
    (first,) = await world.started()
    await world.run_becomes(first.run_id, RunStatus.WAITING_HUMAN)
    await gateway.look(20)
    decision = (await world.record()).decisions[-1]
    assert (decision.outcome, decision.reason) == (DecisionOutcome.SKIPPED, SkipReason.OVERLAP)
    assert decision.detail == f"run {first.run_id} is WAITING_HUMAN"
    await world.run_becomes(first.run_id, RunStatus.COMPLETED)
    await gateway.look(30)
    assert len(await world.started()) == 2


@pytest.mark.parametrize("overlap", [Overlap.BUFFER_ONE, Overlap.BUFFER_ALL])
async def test_a_buffered_start_follows_the_end_of_the_run(world: ScheduleWorld, overlap: Overlap) -> None:
    await world.create(overlap=overlap)
    gateway = await world.gateway()
    await gateway.look(10)
    (first,) = await world.started()
    await gateway.look(20)
    assert len((await world.record()).buffer) == 1
    await world.run_becomes(first.run_id, RunStatus.COMPLETED)
    # As the feed of runs reports it.
    world.clock.at = START + 21
    gateway.directory.run_ended(first.run_id)
    await gateway.look()
    times = [run.cause.at for run in await world.started() if isinstance(run.cause, Cause)]
    assert times == [START + 10, START + 20]


async def test_the_end_of_a_run_is_also_found_without_a_report(world: ScheduleWorld) -> None:
    await world.create(overlap=Overlap.BUFFER_ONE)
    gateway = await world.gateway()
    await gateway.look(10)
    (first,) = await world.started()
    await gateway.look(20)
    await world.run_becomes(first.run_id, RunStatus.COMPLETED)
    await gateway.look(26)
    assert len(await world.started()) == 2


async def test_cancel_other_starts_when_the_cancelled_run_has_ended(world: ScheduleWorld) -> None:
    await world.create(overlap=Overlap.CANCEL_OTHER)
    gateway = await world.gateway()
    await gateway.look(10)
    (first,) = await world.started()
    # It has a worker, which takes its time.
    found = await world.runs.get_from_leader(first.run_id)
    assert found is not None
    running = structs.replace(
        found.snapshot, status=RunStatus.RUNNING, delivery=DeliveryId(1, 1), worker_id="w1"
    )
    await world.runs.replace(running, revision=found.revision)
    await gateway.look(20)
    cancelled = await world.run(first.run_id)
    assert (cancelled.status, cancelled.cancel_requested_by) == (RunStatus.CANCELLING, "schedule:tick")
    assert cancelled.cancel_reason == "overlap policy cancel_other"
    assert len(await world.started()) == 1
    await gateway.look(26)
    assert len(await world.started()) == 1
    await world.run_becomes(first.run_id, RunStatus.CANCELLED)
    gateway.directory.run_ended(first.run_id)
    await gateway.look(27)
    times = [run.cause.at for run in await world.started() if isinstance(run.cause, Cause)]
    assert times == [START + 10, START + 20]


async def test_a_run_without_a_worker_is_cancelled_at_once(world: ScheduleWorld) -> None:
    await world.create(overlap=Overlap.TERMINATE_OTHER)
    gateway = await world.gateway()
    await gateway.look(10)
    (first,) = await world.started()
    await world.run_becomes(first.run_id, RunStatus.WAITING_HUMAN)
    await gateway.look(20)
    assert (await world.run(first.run_id)).status is RunStatus.CANCELLED
    gateway.directory.run_ended(first.run_id)
    await gateway.look(21)
    assert len(await world.started()) == 2


async def test_a_start_that_is_impossible_becomes_a_decision(world: ScheduleWorld) -> None:
    """The run is larger than a snapshot may be: the schedule goes on."""
    await world.create(tags=["x" * 200_000])
    gateway = await world.gateway()
    for at in (10, 20):
        await gateway.look(at)
    record = await world.record()
    assert [each.outcome for each in record.decisions] == [DecisionOutcome.FAILED, DecisionOutcome.FAILED]
    assert "shorten its tags" in str(record.decisions[0].detail)
    assert (record.starts, record.running, record.counts["failed"]) == ([], [], 2)
    assert gateway.runner.decision_counts == {"failed": 2}


async def test_an_unexpected_error_of_a_start_becomes_a_decision(
    world: ScheduleWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.create()
    gateway = await world.gateway()

    async def fails(*_: Any) -> bool:
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(DurableStarter, "ensure_run", fails)
        await gateway.look(10)
    assert (await world.record()).decisions[-1].detail == "a bug"
    await gateway.look(20)
    assert len(await world.started()) == 1


async def test_a_record_that_cannot_be_read_stops_no_other(world: ScheduleWorld) -> None:
    gateway = await world.gateway()
    bucket = Bucket(world.connection, world.connection.config.schedules_kv_bucket)
    await bucket.create(schedule_key(None, "broken"), b'{"schedule_id": 5}')
    broken = await world.create("breaks")
    await world.create()
    await gateway.look(10)
    stored = await world.stored(broken)
    await bucket.update(broken, b"{}", revision=stored.revision)
    await gateway.look(20)
    assert (await world.record()).cursor == START + 20
    assert [row.schedule_id for row in gateway.directory.rows(None)] == ["tick"]
    unreadable = {entry.key: entry.kind for entry in world.connection.unreadable.newest(10)}
    assert unreadable == dict.fromkeys([broken, schedule_key(None, "broken")], RecordKind.SCHEDULE)


async def test_a_schedule_that_is_made_again_starts_runs_of_its_own(world: ScheduleWorld) -> None:
    key = await world.create()
    gateway = await world.gateway()
    await gateway.look(10)
    (first,) = await world.started()
    await world.store.delete(key, revision=(await world.stored(key)).revision)
    await gateway.look(11)
    assert gateway.directory.rows(None) == []
    await world.create(incarnation="i2")
    await gateway.look(12)
    (second,) = await world.started()
    assert second.run_id != first.run_id
    assert second.cause == first.cause


async def test_a_trigger_is_settled_at_once(world: ScheduleWorld) -> None:
    key = await world.create()
    gateway = await world.gateway()
    found = await world.stored()
    earlier_runs = await gateway.runner.earlier_runs_of(found.record)
    done = triggered(found.record, now=START + 5, trigger_id="t", earlier_runs=earlier_runs, params={"x": 2})
    await world.store.replace(done.record, revision=found.revision)
    await gateway.runner.settle(key)
    assert (await world.run(done.run_id)).params == {"x": 2}
    assert (await world.record()).starts == []
    await gateway.look(10)
    assert (await world.record()).decisions[-1].outcome is DecisionOutcome.SKIPPED


async def test_a_backfill_of_a_day_runs_one_after_the_other(world: ScheduleWorld) -> None:
    await world.create(spec=ScheduleSpec(cron=["@hourly"]))
    gateway = await world.gateway()
    found = await world.stored()
    record = with_backfill(
        found.record, now=START, backfill_id="b", from_at=START - 86_400, to_at=START, overlap=None
    )
    await world.store.replace(record, revision=found.revision)
    for number in range(24):
        await gateway.look(number * 6)
        (run,) = (await world.record()).running
        assert (await world.run(run.run_id)).cause == Cause(
            kind=CauseKind.SCHEDULE, id="tick", at=START - 86_400 + number * 3600
        )
        await world.run_becomes(run.run_id, RunStatus.COMPLETED)
    await gateway.look(24 * 6)
    record = await world.record()
    assert (record.backfills, record.counts) == ([], {"started": 24})


@pytest.mark.parametrize(("window_sec", "expected"), [(5, [18, 20, 22]), (60, list(range(2, 24, 2)))])
async def test_nats_away_over_ten_ticks(world: ScheduleWorld, window_sec: float, expected: list[int]) -> None:
    await world.create(every_sec=2, overlap=Overlap.ALLOW_ALL, catchup_window_sec=window_sec)
    gateway = await world.gateway()
    await gateway.look(22.5)
    runs = await world.started()
    times = [run.cause.at - START for run in runs if isinstance(run.cause, Cause) and run.cause.at]
    assert times == expected
    record = await world.record()
    assert record.counts.get("missed", 0) == 11 - len(expected)


async def test_nothing_starts_before_the_time_of_the_server_is_known(world: ScheduleWorld) -> None:
    await world.create()
    gateway = await world.gateway()
    known = False
    runner = ScheduleRunner(
        world.connection, gateway.directory, clock=world.clock.now, knows_time=lambda: known
    )
    world.clock.at = START + 10
    next_at = await runner.run_due(world.clock.at)
    assert next_at is not None
    assert next_at > world.clock.at
    assert await world.started() == []
    known = True
    await runner.run_due(world.clock.at)
    assert len(await world.started()) == 1


async def test_lists_follow_what_was_stored(world: ScheduleWorld) -> None:
    gateway = await world.gateway()
    for tenant, name in (("acme", "b"), ("acme", "a"), ("other", "c"), (None, "d")):
        await world.create(name, tenant_id=tenant, tags=["x"])
    await gateway.directory.caught_up()
    assert [row.schedule_id for row in gateway.directory.rows("acme")] == ["a", "b"]
    assert [row.schedule_id for row in gateway.directory.rows(None)] == ["a", "b", "c", "d"]
    await gateway.look(10)
    row = gateway.directory.get(schedule_key("acme", "a"))
    assert row is not None
    assert (row.next_at, row.tags, row.counts) == (START + 20, ("x",), {"started": 1})
    assert row.last is not None
    assert row.last.outcome is DecisionOutcome.STARTED
    assert row.last_run == StartedRun(run_id=str(row.last.run_id), scheduled_for=START + 10)
    await gateway.look(20)
    row = gateway.directory.get(schedule_key("acme", "a"))
    assert row is not None
    assert row.last_run is not None
    assert row.last_run.scheduled_for == START + 10
    assert gateway.runner.decision_counts == {"started": 4, "skipped": 4}


async def test_a_schedule_that_cannot_be_decided_says_why(
    world: ScheduleWorld,
) -> None:
    await world.create(params={"text": "x" * (world.connection.max_record_bytes - 400)})
    gateway = await world.gateway()
    await gateway.look(10.5)
    [problem] = gateway.runner.problems.values()
    assert "the NATS server accepts" in problem


async def test_a_large_backfill_delays_no_other_schedule(world: ScheduleWorld) -> None:
    """It is decided in parts, and what another schedule has due comes between them."""
    large = await world.create("large", every_sec=60, overlap=Overlap.ALLOW_ALL)
    tick = await world.create("tick", overlap=Overlap.ALLOW_ALL)
    found = await world.stored(large)
    backfill = with_backfill(
        found.record,
        now=START,
        backfill_id="b1",
        from_at=START - 3 * MAX_PER_STEP * 60,
        to_at=START,
        overlap=Overlap.ALLOW_ALL,
    )
    await world.store.replace(backfill, revision=found.revision)
    gateway = await world.gateway()
    # While the first part is started, the other schedule becomes due.
    world.clock.at = START + 1
    next_at = await gateway.runner.run_due(world.clock.at)
    assert (await world.record(large)).counts == {"started": MAX_PER_STEP}
    assert next_at == world.clock.at, "it goes on at once"
    world.clock.at = START + 10
    await gateway.runner.run_due(world.clock.at)
    assert (await world.record(tick)).counts == {"started": 1}
    assert (await world.record(large)).backfills, "the backfill has not ended"
    await gateway.look()
    record = await world.record(large)
    assert (record.backfills, record.counts) == ([], {"started": 3 * MAX_PER_STEP})
