"""A worker queues short runs at its executors, and no run waits that another worker could start."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.broker.queue import intake
from pyoco_server.config import NatsBackendConfig
from pyoco_server.runs.lifecycle.ownership import OwnedRun
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.executors import child_process
from pyoco_server.worker.executors.executor_pool import max_sessions
from pyoco_server.worker.session.presence import Presence
from tests.integration.submit.test_cancel import cancel
from tests.support.inspection import queue_is_empty, started_pid, worker_record
from tests.support.places import FLOWS
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import NEVER_SEC, eventually


@pytest.fixture
def never_recalled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "_RECALL_AFTER_SEC", NEVER_SEC)
    monkeypatch.setattr(child_process, "_QUEUE_SEC", NEVER_SEC)
    monkeypatch.setattr(child_process, "_QUEUE_LENGTH", 3)


class QueueOfRuns:
    """A long run at a worker with one slot, and runs that are queued after it."""

    def __init__(self, gateway: RunningGateway, folder: Path) -> None:
        self._gateway = gateway
        self.release = folder / "release"
        self.marker = folder / "started"
        self.counter = folder / "began"
        self.long_run = ""
        self.queued: list[str] = []

    async def fill(self, worker: PyocoNatsWorker, *queued: dict[str, Any]) -> None:
        """Have the worker busy, and these runs in queue."""
        await self._gateway.ends(await self._gateway.submit("noop"))
        await self.begin()
        for fields in queued:
            self.queued.append(await self._gateway.submit(**fields))

            async def last_is_queued() -> bool:
                await self.fetch_ahead(worker)
                return bool((await self._gateway.get(self.queued[-1]))["status"] == "RUNNING")

            await eventually(last_is_queued, describe="the run is queued")

    async def begin(self) -> None:
        params = {"path": str(self.release), "started": str(self.marker)}
        self.long_run = await self._gateway.submit("waiting", params=params)

    async def fetch_ahead(self, worker: PyocoNatsWorker) -> None:
        """Fetch ahead, as if a run had just ended and others were in the work queue."""
        worker._intake._tags[0].waiting = 1
        await worker._intake.slot_freed()

    async def started(self) -> int:
        return await started_pid(self.marker)

    async def is_released(self) -> bool:
        """No run is queued or claimed any more."""
        return {(await self._gateway.get(run_id))["status"] for run_id in self.queued} == {"PENDING"}

    @property
    def counting(self) -> dict[str, Any]:
        """A run that counts its executions."""
        return {"flow_name": "counting", "params": {"counter": str(self.counter), "seconds": 0}}

    @property
    def executed(self) -> int:
        return len(self.counter.read_text().splitlines()) if self.counter.exists() else 0

    async def assert_all_completed(self, *, worker_id: str) -> None:
        """At the first attempt, each executed once."""
        for run_id in self.queued:
            run = await self._gateway.ends(run_id)
            assert (run["status"], run["attempt"], run["worker_id"]) == ("COMPLETED", 1, worker_id)
        assert self.executed == len(self.queued)


@pytest.fixture
def queue(gateway: RunningGateway, tmp_path: Path) -> QueueOfRuns:
    return QueueOfRuns(gateway, tmp_path)


@asynccontextmanager
async def worker_with(
    config: NatsBackendConfig, queue: QueueOfRuns, **how: Any
) -> AsyncIterator[PyocoNatsWorker]:
    async with serving_worker(config, **how) as worker:
        await queue.fill(worker, *[queue.counting] * 3)
        yield worker


@pytest.mark.parametrize(
    ("executors", "allowance", "most"),
    [(1, 200, 20), (4, 200, 50), (16, 200, 96), (4, 1000, 80), (4, 1, 24), (4, -1, 80)],
)
def test_one_worker_takes_a_part_of_the_allowance(executors: int, allowance: int, most: int) -> None:
    assert max_sessions(executors, allowance) == most


async def test_short_runs_are_queued_and_the_record_counts_slots(
    config: NatsBackendConfig, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_hand: list[int] = []
    began = Presence.began

    def count(presence: Presence, run_id: str) -> None:
        began(presence, run_id)
        in_hand.append(len(presence._running))

    monkeypatch.setattr(Presence, "began", count)
    # On a slow machine even these runs are long.
    monkeypatch.setattr(child_process, "_QUEUE_SEC", NEVER_SEC)
    monkeypatch.setattr(child_process, "_RECALL_AFTER_SEC", NEVER_SEC)
    run_ids = [await gateway.submit("noop") for _ in range(200)]
    busy: set[int] = set()
    async with serving_worker(config, concurrency=2):
        for run_id in run_ids:
            run = await gateway.ends(run_id)
            assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
            busy.add((await worker_record(gateway)).slots_busy)
    # Two at the executors, and two whose end is being stored.
    assert max(in_hand) > 4
    assert max(busy) <= 2


async def test_a_long_run_among_short_ones_does_not_delay_them(
    config: NatsBackendConfig, gateway: RunningGateway, queue: QueueOfRuns
) -> None:
    for _ in range(40):
        await gateway.submit("noop")
    await queue.begin()
    queue.queued = [await gateway.submit(**queue.counting) for _ in range(60)]
    async with serving_worker(config, worker_id="first"), serving_worker(config, worker_id="second"):
        await queue.started()
        for run_id in queue.queued:
            run = await gateway.ends(run_id)
            assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
        assert (await gateway.get(queue.long_run))["status"] == "RUNNING"
        queue.release.touch()
        assert (await gateway.ends(queue.long_run))["attempt"] == 1
    assert queue.executed == len(queue.queued)


async def test_who_waits_behind_a_run_that_lasts_is_released_for_another_worker(
    config: NatsBackendConfig, gateway: RunningGateway, queue: QueueOfRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "_QUEUE_SEC", NEVER_SEC)
    # Time to fill the queue before it is recalled.
    monkeypatch.setattr(child_process, "_RECALL_AFTER_SEC", 2.0)
    async with worker_with(config, queue, worker_id="first"):
        await eventually(queue.is_released, describe="no run is queued")
        for run_id in queue.queued:
            run = await gateway.get(run_id)
            assert (run["attempt"], run["worker_id"], run["start_time"]) == (0, None, None)
        async with serving_worker(config, worker_id="second"):
            await queue.assert_all_completed(worker_id="second")
        assert (await gateway.get(queue.long_run))["status"] == "RUNNING"
        queue.release.touch()
        assert (await gateway.ends(queue.long_run))["worker_id"] == "first"


async def test_fetched_deliveries_are_returned_when_all_runs_are_long(
    config: NatsBackendConfig, gateway: RunningGateway, queue: QueueOfRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "_QUEUE_SEC", NEVER_SEC)
    monkeypatch.setattr(child_process, "_RECALL_AFTER_SEC", 2.0)
    monkeypatch.setattr(child_process, "_QUEUE_LENGTH", 3)
    monkeypatch.setattr(intake, "_BUFFERED_SEC", NEVER_SEC)
    async with worker_with(config, queue, worker_id="first") as worker:
        queue.queued.append(await gateway.submit(**queue.counting))
        await queue.fetch_ahead(worker)
        buffer = worker._intake._tags[0].buffer
        await eventually(lambda: buffer, describe="one does not fit into the queue")
        await eventually(lambda: not buffer, describe="it was returned")
        async with serving_worker(config, worker_id="second"):
            await queue.assert_all_completed(worker_id="second")
        queue.release.touch()


@pytest.mark.usefixtures("never_recalled")
async def test_a_run_that_is_cancelled_in_the_queue_is_never_started(
    config: NatsBackendConfig, gateway: RunningGateway, queue: QueueOfRuns
) -> None:
    # A run that was never started needs no grace period.
    async with worker_with(replace(config, cancel_grace_period_sec=NEVER_SEC), queue):
        cancelled = queue.queued.pop(1)
        await cancel(gateway, cancelled)
        run = await gateway.ends(cancelled)
        assert (run["status"], run["reason"], run["tasks"]) == ("CANCELLED", None, {})
        assert (await gateway.get(queue.long_run))["status"] == "RUNNING"
        queue.release.touch()
        await queue.assert_all_completed(worker_id="worker")
        assert await eventually(lambda: queue_is_empty(gateway), describe="all jobs are acked")


@pytest.mark.usefixtures("never_recalled")
async def test_a_time_limit_applies_in_the_queue(
    config: NatsBackendConfig, gateway: RunningGateway, queue: QueueOfRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It returns to the work queue as not started, and the other runs stay queued."""
    async with serving_worker(config) as worker:
        limited = {"flow_name": "noop", "timeout_sec": 60.0}
        await queue.fill(worker, queue.counting, limited, queue.counting)
        with monkeypatch.context() as later:
            later.setattr(OwnedRun, "used_sec", 60.0)
            run = await gateway.reaches(queue.queued[1], "PENDING")
        assert (run["attempt"], run["start_time"]) == (0, None)
        # It is not queued a second time.
        buffer = worker._intake._tags[0].buffer

        async def is_redelivered() -> bool:
            # It is PENDING a moment before it is in the work queue.
            await queue.fetch_ahead(worker)
            return bool(buffer)

        await eventually(is_redelivered, describe="it is redelivered")
        assert (await gateway.get(queue.queued[1]))["status"] == "PENDING"
        for run_id in (queue.long_run, queue.queued[0], queue.queued[2]):
            assert (await gateway.get(run_id))["status"] == "RUNNING"
        queue.release.touch()
        for run_id in queue.queued:
            assert (await gateway.ends(run_id))["status"] == "COMPLETED"


@pytest.mark.usefixtures("never_recalled")
async def test_a_killed_executor_fails_only_its_current_run(
    config: NatsBackendConfig, gateway: RunningGateway, queue: QueueOfRuns
) -> None:
    async with worker_with(config, queue):
        os.kill(await queue.started(), signal.SIGKILL)
        crashed = await gateway.ends(queue.long_run)
        assert (crashed["status"], crashed["reason"]) == ("FAILED", "executor_crashed")
        await queue.assert_all_completed(worker_id="worker")


@pytest.mark.usefixtures("never_recalled")
async def test_a_forced_end_does_not_affect_queued_runs(
    config: NatsBackendConfig, gateway: RunningGateway, queue: QueueOfRuns
) -> None:
    async with serving_worker(replace(config, cancel_grace_period_sec=0.3)) as worker:
        await gateway.ends(await gateway.submit("noop"))
        deaf = await gateway.submit("deaf", params={"seconds": 600})
        await gateway.reaches(deaf, "RUNNING")
        queue.queued.append(await gateway.submit(**queue.counting))

        async def is_queued() -> bool:
            await queue.fetch_ahead(worker)
            return bool((await gateway.get(queue.queued[0]))["status"] == "RUNNING")

        await eventually(is_queued, describe="the run is queued")
        await cancel(gateway, deaf)
        run = await gateway.ends(deaf)
        assert (run["status"], run["reason"]) == ("CANCELLED", "cancel_forced")
        await queue.assert_all_completed(worker_id="worker")


@pytest.mark.usefixtures("never_recalled")
async def test_a_draining_worker_returns_its_queue_and_finishes_the_current_run(
    config: NatsBackendConfig, gateway: RunningGateway, queue: QueueOfRuns
) -> None:
    formed = asyncio.Event()

    async def serve() -> None:
        async with worker_with(replace(config, drain_timeout_sec=20.0), queue):
            formed.set()

    async with asyncio.TaskGroup() as group:
        serving = group.create_task(serve())
        await formed.wait()
        await eventually(queue.is_released, describe="the queue was returned")
        assert not serving.done()
        queue.release.touch()
    assert (await gateway.get(queue.long_run))["status"] == "COMPLETED"
    async with serving_worker(config, worker_id="second"):
        await queue.assert_all_completed(worker_id="second")


@pytest.mark.usefixtures("never_recalled")
async def test_a_queued_run_gets_the_new_code(
    config: NatsBackendConfig, gateway: RunningGateway, queue: QueueOfRuns, tmp_path: Path
) -> None:
    folder = tmp_path / "flows"
    folder.mkdir()
    (folder / "basics.py").write_text((FLOWS / "basics.py").read_text())
    async with serving_worker(config, flows=folder) as worker:
        await queue.fill(worker, {"flow_name": "chain"}, {"flow_name": "chain"})
        source = (FLOWS / "basics.py").read_text().replace("return x + 1", "return x + 41")
        (folder / "basics.py").write_text(source)
        await eventually(queue.is_released, describe="the queue was recalled")
        queue.release.touch()
        for run_id in queue.queued:
            run = await gateway.ends(run_id)
            assert run["task_records"]["load"]["output"] == 42


@pytest.mark.usefixtures("never_recalled")
async def test_a_run_with_large_params_is_not_queued(
    config: NatsBackendConfig, gateway: RunningGateway, queue: QueueOfRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "_BUFFERED_SEC", NEVER_SEC)
    async with serving_worker(config) as worker:
        await queue.fill(worker)
        await queue.started()
        large = await gateway.submit("noop", params={"text": "x" * 100_000})
        await queue.fetch_ahead(worker)
        await eventually(lambda: worker._intake._tags[0].buffer, describe="the worker could have queued it")
        assert (await gateway.get(large))["status"] == "PENDING"
        queue.release.touch()
        run = await gateway.ends(large)
        assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
