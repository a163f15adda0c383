"""A run that is written during a round of the sweep stays an open run."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest
from msgspec import structs

from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.stores.runs.run_store import StoredRun
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.runs.open_runs import OpenRuns, RunState
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.sweeping import (
    CrashedWorker,
    _no_submissions,
    advisories,
    config,
    messages_in_queue,
    rounds,
    store_without_job,
)
from tests.support.waiting import eventually_equals

__all__ = ["_no_submissions", "config"]

pytestmark = pytest.mark.usefixtures("_no_submissions")

LIMIT_SEC = 90.0


def inside_the_round(gateway: RunningGateway, act: Callable[[], Awaitable[None]]) -> asyncio.Event:
    """Run it once, between the check of the open runs and their repair; the event is set then."""
    queued = gateway.inside.sweeper._orphaned._queued
    look, done = queued.read, asyncio.Event()

    async def look_and_act() -> AsyncIterator[None]:
        async for _ in look():
            yield
        if not done.is_set():
            await act()
            await gateway.inside.listing.lists.caught_up()
            done.set()

    queued.read = look_and_act  # type: ignore[method-assign]
    return done


async def passed(done: asyncio.Event) -> None:
    async with asyncio.timeout(LIMIT_SEC):
        await done.wait()


async def test_a_run_whose_last_worker_crashes_during_a_round_is_ended(config: NatsBackendConfig) -> None:
    config = replace(config, consumer_max_deliver=1)
    async with running_gateway(config) as gateway:
        job = await store_without_job(gateway)

        async def job_comes_late_and_its_worker_dies() -> None:
            await WorkQueue(gateway.inside.connection).publish_continuation(job)
            await CrashedWorker(config).take()

        await passed(inside_the_round(gateway, job_comes_late_and_its_worker_dies))
        run = await gateway.ends(job.run_id)
        assert (run["status"], run["reason"]) == ("FAILED", "deliveries_exhausted")
        await eventually_equals(lambda: advisories(gateway), 0, describe="the advisory is dealt with")


async def test_a_newer_state_is_kept(config: NatsBackendConfig) -> None:
    async with running_gateway(config) as gateway:
        job = await store_without_job(gateway)
        store, open_runs = gateway.inside.runs.store, gateway.inside.sweeper._runs

        async def is_written() -> None:
            stored = await store.get_from_leader(job.run_id)
            assert stored is not None
            waiting = structs.replace(stored.snapshot, status=RunStatus.WAITING_HUMAN)
            await store.replace(waiting, revision=stored.revision)

        await passed(inside_the_round(gateway, is_written))
        await rounds(gateway, 2)
        assert job.run_id in open_runs


async def test_a_failed_repair_is_retried(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_gateway(config) as gateway:
        unowned_runs = gateway.inside.sweeper.unowned_runs
        republish_job, failures = unowned_runs.republish_job, ["the first time"]

        async def fails_once(stored: StoredRun) -> str | None:
            if failures:
                raise ValueError(failures.pop())
            return await republish_job(stored)

        monkeypatch.setattr(unowned_runs, "republish_job", fails_once)
        await store_without_job(gateway)
        await eventually_equals(lambda: messages_in_queue(gateway), 1, describe="its job is in the queue")
    assert [record.exc_text for record in caplog.records if "cannot repair a run" in record.message] != []


def test_only_the_checked_revision_is_forgotten() -> None:
    runs = OpenRuns()
    state = RunState(status="RUNNING", heartbeat_at=1.0)
    runs.apply("r", 2, state)
    runs.forget("r", 1)
    assert "r" in runs
    runs.forget("r", 2)
    assert "r" not in runs
    runs.forget("r", 2)
