"""A worker queues short runs at its executors, and no run waits that another worker could start."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.broker.queue import intake
from pyoco_server.runs.lifecycle.ownership import OwnedRun
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.executors import executor_handle
from pyoco_server.worker.executors.renewable_executor import RenewableExecutor
from pyoco_server.worker.session.presence import Presence
from tests.integration.lifecycle.test_cancel import cancel
from tests.integration.worker.conftest import OwnQueue
from tests.support.inspection import started_pid, worker_record
from tests.support.places import FLOWS
from tests.support.running.gateway import RunningGateway
from tests.support.waiting import NEVER_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def never_recalled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_handle, "_RECALL_AFTER_SEC", NEVER_SEC)
    monkeypatch.setattr(executor_handle, "_QUEUE_SEC", NEVER_SEC)
    monkeypatch.setattr(executor_handle, "_QUEUE_LENGTH", 3)


class QueueOfRuns(OwnQueue):
    """A long run at a worker with one slot, and runs that are queued after it."""

    def __init__(self, gateway: RunningGateway, folder: Path) -> None:
        super().__init__(gateway)
        self.release = folder / "release"
        self.marker = folder / "started"
        self.counter = folder / "began"
        self.long_run = ""
        self.queued: list[str] = []

    async def fill(self, worker: PyocoNatsWorker, *queued: dict[str, Any]) -> None:
        """Have the worker busy, and these runs in queue."""
        await self.run("noop")
        await self.begin()
        for fields in queued:
            self.queued.append(await self.submit(**fields))

            async def last_is_queued() -> bool:
                await self.fetch_ahead(worker)
                return bool((await self.gateway.get(self.queued[-1]))["status"] == "RUNNING")

            await eventually(last_is_queued, describe="the run is queued")

    async def begin(self) -> None:
        params = {"path": str(self.release), "started": str(self.marker)}
        self.long_run = await self.submit("waiting", params=params)

    async def fetch_ahead(self, worker: PyocoNatsWorker) -> None:
        """Fetch ahead, as if a run had just ended and others were in the work queue."""
        worker._intake._tags[0].waiting = 1
        await worker._intake.slot_freed()

    async def started(self) -> int:
        return await started_pid(self.marker)

    async def is_released(self) -> bool:
        """No run is queued or claimed any more."""
        return {(await self.gateway.get(run_id))["status"] for run_id in self.queued} == {"PENDING"}

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
            run = await self.gateway.ends(run_id)
            assert (run["status"], run["attempt"], run["worker_id"]) == ("COMPLETED", 1, worker_id)
        assert self.executed == len(self.queued)


@pytest.fixture
def queue(shared_gateway: RunningGateway, tmp_path: Path) -> QueueOfRuns:
    return QueueOfRuns(shared_gateway, tmp_path)


@asynccontextmanager
async def worker_with(queue: QueueOfRuns, worker_id: str, **settings: Any) -> AsyncIterator[PyocoNatsWorker]:
    async with queue.worker(worker_id, **settings) as worker:
        await queue.fill(worker, *[queue.counting] * 3)
        yield worker


async def test_short_runs_are_queued_and_the_record_counts_slots(
    queue: QueueOfRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_hand: list[int] = []
    began = Presence.began

    def count(presence: Presence, run_id: str) -> None:
        began(presence, run_id)
        in_hand.append(len(presence._running))

    monkeypatch.setattr(Presence, "began", count)
    # On a slow machine even these runs are long.
    monkeypatch.setattr(intake, "_SHORT_RUN_SEC", NEVER_SEC)
    monkeypatch.setattr(executor_handle, "_QUEUE_SEC", NEVER_SEC)
    monkeypatch.setattr(executor_handle, "_RECALL_AFTER_SEC", NEVER_SEC)
    run_ids = [await queue.submit("noop") for _ in range(100)]
    busy: set[int] = set()
    async with queue.worker("w", concurrency=2):
        for run_id in run_ids:
            run = await queue.gateway.ends(run_id)
            assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
            busy.add((await worker_record(queue.gateway, "w")).slots_busy)
    # Two at the executors, and two whose end is being stored.
    assert max(in_hand) > 4
    assert max(busy) <= 2


async def test_a_long_run_among_short_ones_does_not_delay_them(queue: QueueOfRuns) -> None:
    for _ in range(40):
        await queue.submit("noop")
    await queue.begin()
    queue.queued = [await queue.submit(**queue.counting) for _ in range(60)]
    async with queue.worker("first"), queue.worker("second"):
        await queue.started()
        for run_id in queue.queued:
            run = await queue.gateway.ends(run_id)
            assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
        assert (await queue.gateway.get(queue.long_run))["status"] == "RUNNING"
        queue.release.touch()
        assert (await queue.gateway.ends(queue.long_run))["attempt"] == 1
    assert queue.executed == len(queue.queued)


def count_as_long(worker: PyocoNatsWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current run counts as long from now on, and the timer of its executor fires."""
    monkeypatch.setattr(executor_handle, "_RECALL_AFTER_SEC", 0.0)
    [executor] = worker._executors
    assert isinstance(executor, RenewableExecutor)
    assert executor.child is not None
    executor.child._recall_late()


@pytest.mark.usefixtures("never_recalled")
async def test_runs_queued_after_a_long_run_are_released_for_another_worker(
    queue: QueueOfRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with worker_with(queue, "first") as worker:
        await queue.started()
        count_as_long(worker, monkeypatch)
        await eventually(queue.is_released, describe="no run is queued")
        for run_id in queue.queued:
            run = await queue.gateway.get(run_id)
            assert (run["attempt"], run["worker_id"], run["start_time"]) == (0, None, None)
        async with queue.worker("second"):
            await queue.assert_all_completed(worker_id="second")
        assert (await queue.gateway.get(queue.long_run))["status"] == "RUNNING"
        queue.release.touch()
        assert (await queue.gateway.ends(queue.long_run))["worker_id"] == "first"


@pytest.mark.usefixtures("never_recalled")
async def test_fetched_deliveries_are_returned_when_all_runs_are_long(
    queue: QueueOfRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "_BUFFERED_SEC", NEVER_SEC)
    async with worker_with(queue, "first") as worker:
        queue.queued.append(await queue.submit(**queue.counting))
        await queue.fetch_ahead(worker)
        buffer = worker._intake._tags[0].buffer
        await eventually(lambda: buffer, describe="one does not fit into the queue")
        count_as_long(worker, monkeypatch)
        await eventually(lambda: not buffer, describe="it was returned")
        async with queue.worker("second"):
            await queue.assert_all_completed(worker_id="second")
        queue.release.touch()


@pytest.mark.usefixtures("never_recalled")
async def test_a_run_that_is_cancelled_in_the_queue_is_never_started(queue: QueueOfRuns) -> None:
    # A run that was never started needs no grace period.
    async with worker_with(queue, "w"):
        cancelled = queue.queued.pop(1)
        await cancel(queue.gateway, cancelled)
        run = await queue.gateway.ends(cancelled)
        assert (run["status"], run["reason"], run["tasks"]) == ("CANCELLED", None, {})
        assert (await queue.gateway.get(queue.long_run))["status"] == "RUNNING"
        queue.release.touch()
        await queue.assert_all_completed(worker_id="w")
        await queue.becomes_empty()


@pytest.mark.usefixtures("never_recalled")
async def test_a_time_limit_applies_in_the_queue(queue: QueueOfRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    """It returns to the work queue as not started, and the other runs stay queued."""
    async with queue.worker() as worker:
        limited = {"flow_name": "noop", "timeout_sec": 60.0}
        await queue.fill(worker, queue.counting, limited, queue.counting)
        with monkeypatch.context() as later:
            later.setattr(OwnedRun, "used_sec", 60.0)
            run = await queue.gateway.reaches(queue.queued[1], "PENDING")
        assert (run["attempt"], run["start_time"]) == (0, None)
        # It is not queued a second time.
        buffer = worker._intake._tags[0].buffer

        async def is_redelivered() -> bool:
            # It is PENDING a moment before it is in the work queue.
            await queue.fetch_ahead(worker)
            return bool(buffer)

        await eventually(is_redelivered, describe="it is redelivered")
        assert (await queue.gateway.get(queue.queued[1]))["status"] == "PENDING"
        for run_id in (queue.long_run, queue.queued[0], queue.queued[2]):
            assert (await queue.gateway.get(run_id))["status"] == "RUNNING"
        queue.release.touch()
        for run_id in queue.queued:
            assert (await queue.gateway.ends(run_id))["status"] == "COMPLETED"


@pytest.mark.usefixtures("never_recalled")
async def test_a_killed_executor_fails_only_its_current_run(queue: QueueOfRuns) -> None:
    async with worker_with(queue, "w"):
        os.kill(await queue.started(), signal.SIGKILL)
        crashed = await queue.gateway.ends(queue.long_run)
        assert (crashed["status"], crashed["reason"]) == ("FAILED", "executor_crashed")
        await queue.assert_all_completed(worker_id="w")


@pytest.mark.usefixtures("never_recalled")
async def test_a_forced_end_does_not_affect_queued_runs(queue: QueueOfRuns) -> None:
    async with queue.worker("w", cancel_grace_period_sec=0.3) as worker:
        await queue.run("noop")
        deaf = await queue.submit("deaf", params={"seconds": 600})
        await queue.gateway.reaches(deaf, "RUNNING")
        queue.queued.append(await queue.submit(**queue.counting))

        async def is_queued() -> bool:
            await queue.fetch_ahead(worker)
            return bool((await queue.gateway.get(queue.queued[0]))["status"] == "RUNNING")

        await eventually(is_queued, describe="the run is queued")
        await cancel(queue.gateway, deaf)
        run = await queue.gateway.ends(deaf)
        assert (run["status"], run["reason"]) == ("CANCELLED", "cancel_forced")
        await queue.assert_all_completed(worker_id="w")


@pytest.mark.usefixtures("never_recalled")
async def test_a_draining_worker_returns_its_queue_and_finishes_the_current_run(queue: QueueOfRuns) -> None:
    formed = asyncio.Event()

    async def serve() -> None:
        async with worker_with(queue, "first", drain_timeout_sec=20.0):
            formed.set()

    async with asyncio.TaskGroup() as group:
        serving = group.create_task(serve())
        await formed.wait()
        await eventually(queue.is_released, describe="the queue was returned")
        assert not serving.done()
        queue.release.touch()
    assert (await queue.gateway.get(queue.long_run))["status"] == "COMPLETED"
    async with queue.worker("second"):
        await queue.assert_all_completed(worker_id="second")


@pytest.mark.usefixtures("never_recalled")
async def test_a_queued_run_gets_the_new_code(queue: QueueOfRuns, tmp_path: Path) -> None:
    folder = tmp_path / "flows"
    folder.mkdir()
    (folder / "basics.py").write_text((FLOWS / "basics.py").read_text())
    async with queue.worker(flows=folder) as worker:
        await queue.fill(worker, {"flow_name": "chain"}, {"flow_name": "chain"})
        source = (FLOWS / "basics.py").read_text().replace("return x + 1", "return x + 41")
        (folder / "basics.py").write_text(source)
        await eventually(queue.is_released, describe="the queue was recalled")
        queue.release.touch()
        for run_id in queue.queued:
            run = await queue.gateway.ends(run_id)
            assert run["task_records"]["load"]["output"] == 42


@pytest.mark.usefixtures("never_recalled")
async def test_a_run_with_large_params_is_not_queued(
    queue: QueueOfRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "_BUFFERED_SEC", NEVER_SEC)
    async with queue.worker() as worker:
        await queue.fill(worker)
        await queue.started()
        large = await queue.submit("noop", params={"text": "x" * 100_000})
        await queue.fetch_ahead(worker)
        await eventually(lambda: worker._intake._tags[0].buffer, describe="the worker could have queued it")
        assert (await queue.gateway.get(large))["status"] == "PENDING"
        queue.release.touch()
        run = await queue.gateway.ends(large)
        assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
