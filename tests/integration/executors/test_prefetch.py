"""A worker that has short runs line up: faster, and nobody waits whom another worker could serve."""

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
from pyoco_server.worker.executors import process_link
from pyoco_server.worker.executors.executor_pool import most_sessions
from pyoco_server.worker.session.presence import Presence
from tests.integration.submit.test_cancel import cancel
from tests.support.inspection import queue_is_empty, started_pid, worker_record
from tests.support.places import FLOWS
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually

# Long enough that nothing is taken back unless a test makes it happen.
FOR_EVER_SEC = 600.0


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_link, "_PATIENCE_SEC", FOR_EVER_SEC)
    monkeypatch.setattr(process_link, "_SHORT_SEC", FOR_EVER_SEC)
    monkeypatch.setattr(process_link, "_LINE", 3)


class Line:
    """A run that lasts until it is let go, at a worker of one slot, and runs in line behind it."""

    def __init__(self, gateway: RunningGateway, folder: Path) -> None:
        self._gateway = gateway
        self.release = folder / "release"
        self.marker = folder / "started"
        self.counter = folder / "began"
        self.lasting = ""
        self.behind: list[str] = []

    async def form_at(self, worker: PyocoNatsWorker, *behind: dict[str, Any]) -> None:
        """Have the worker busy, and these runs in line."""
        await self._gateway.ends(await self._gateway.submit("noop"))
        await self.begin()
        for fields in behind:
            self.behind.append(await self._gateway.submit(**fields))

            async def last_is_in_line() -> bool:
                await self.look_for_more(worker)
                return bool((await self._gateway.get(self.behind[-1]))["status"] == "RUNNING")

            await eventually(last_is_in_line, describe="the run is in line")

    async def begin(self) -> None:
        params = {"path": str(self.release), "started": str(self.marker)}
        self.lasting = await self._gateway.submit("waiting", params=params)

    async def look_for_more(self, worker: PyocoNatsWorker) -> None:
        """Have the worker fetch ahead, as if a run had just ended and others were in the queue."""
        worker._intake._tags[0].waiting = 1
        await worker._intake.slot_freed()

    async def begun(self) -> int:
        return await started_pid(self.marker)

    async def is_free(self) -> bool:
        """Nobody is in line any more, nor claimed to be."""
        return {(await self._gateway.get(run_id))["status"] for run_id in self.behind} == {"PENDING"}

    @property
    def counting(self) -> dict[str, Any]:
        """A run that leaves a trace of each execution."""
        return {"flow_name": "counting", "params": {"counter": str(self.counter), "seconds": 0}}

    @property
    def executed(self) -> int:
        return len(self.counter.read_text().splitlines()) if self.counter.exists() else 0

    async def assert_all_completed_at_once(self, *, worker_id: str) -> None:
        """At the first attempt, and each executed once."""
        for run_id in self.behind:
            run = await self._gateway.ends(run_id)
            assert (run["status"], run["attempt"], run["worker_id"]) == ("COMPLETED", 1, worker_id)
        assert self.executed == len(self.behind)


@pytest.fixture
def line(gateway: RunningGateway, tmp_path: Path) -> Line:
    return Line(gateway, tmp_path)


@asynccontextmanager
async def worker_with(config: NatsBackendConfig, line: Line, **how: Any) -> AsyncIterator[PyocoNatsWorker]:
    async with serving_worker(config, **how) as worker:
        await line.form_at(worker, *[line.counting] * 3)
        yield worker


@pytest.mark.parametrize(
    ("executors", "allowance", "most"),
    [(1, 200, 20), (4, 200, 50), (16, 200, 96), (4, 1000, 80), (4, 1, 24), (4, -1, 80)],
)
def test_one_worker_takes_only_a_part_of_what_all_may_have(executors: int, allowance: int, most: int) -> None:
    assert most_sessions(executors, allowance) == most


async def test_short_runs_line_up_and_the_record_counts_slots(
    config: NatsBackendConfig, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_hand: list[int] = []
    began = Presence.began

    def count(presence: Presence, run_id: str) -> None:
        began(presence, run_id)
        in_hand.append(len(presence._running))

    monkeypatch.setattr(Presence, "began", count)
    # On a slow machine even these are not short.
    monkeypatch.setattr(process_link, "_SHORT_SEC", FOR_EVER_SEC)
    monkeypatch.setattr(process_link, "_PATIENCE_SEC", FOR_EVER_SEC)
    run_ids = [await gateway.submit("noop") for _ in range(200)]
    busy: set[int] = set()
    async with serving_worker(config, concurrency=2):
        for run_id in run_ids:
            run = await gateway.ends(run_id)
            assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
            busy.add((await worker_record(gateway)).slots_busy)
    # Two at the executors, and two whose end is stored.
    assert max(in_hand) > 4
    assert max(busy) <= 2


async def test_a_run_that_lasts_among_short_ones_keeps_nobody_waiting(
    config: NatsBackendConfig, gateway: RunningGateway, line: Line
) -> None:
    """As in production: two workers with nothing but their patience."""
    for _ in range(40):
        await gateway.submit("noop")
    await line.begin()
    line.behind = [await gateway.submit(**line.counting) for _ in range(60)]
    async with serving_worker(config, worker_id="first"), serving_worker(config, worker_id="second"):
        await line.begun()
        for run_id in line.behind:
            run = await gateway.ends(run_id)
            assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
        assert (await gateway.get(line.lasting))["status"] == "RUNNING"
        line.release.touch()
        assert (await gateway.ends(line.lasting))["attempt"] == 1
    assert line.executed == len(line.behind)


async def test_who_waits_behind_a_run_that_lasts_is_free_for_another_worker(
    config: NatsBackendConfig, gateway: RunningGateway, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_link, "_SHORT_SEC", FOR_EVER_SEC)
    # Time for the line to form before it is given up.
    monkeypatch.setattr(process_link, "_PATIENCE_SEC", 2.0)
    async with worker_with(config, line, worker_id="first"):
        await eventually(line.is_free, describe="nobody waits in line")
        for run_id in line.behind:
            run = await gateway.get(run_id)
            assert (run["attempt"], run["worker_id"], run["start_time"]) == (0, None, None)
        async with serving_worker(config, worker_id="second"):
            await line.assert_all_completed_at_once(worker_id="second")
        assert (await gateway.get(line.lasting))["status"] == "RUNNING"
        line.release.touch()
        assert (await gateway.ends(line.lasting))["worker_id"] == "first"


async def test_what_was_fetched_for_the_line_is_not_held_when_all_runs_last(
    config: NatsBackendConfig, gateway: RunningGateway, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_link, "_SHORT_SEC", FOR_EVER_SEC)
    monkeypatch.setattr(process_link, "_PATIENCE_SEC", 2.0)
    monkeypatch.setattr(process_link, "_LINE", 3)
    monkeypatch.setattr(intake, "_BUFFERED_SEC", FOR_EVER_SEC)
    async with worker_with(config, line, worker_id="first") as worker:
        line.behind.append(await gateway.submit(**line.counting))
        await line.look_for_more(worker)
        buffer = worker._intake._tags[0].buffer
        await eventually(lambda: buffer, describe="there is one too many for the line")
        await eventually(lambda: not buffer, describe="it was handed back")
        async with serving_worker(config, worker_id="second"):
            await line.assert_all_completed_at_once(worker_id="second")
        line.release.touch()


@pytest.mark.usefixtures("patient")
async def test_a_run_that_is_cancelled_in_line_was_never_begun(
    config: NatsBackendConfig, gateway: RunningGateway, line: Line
) -> None:
    # Nobody waits for that long: what was never begun needs no grace.
    async with worker_with(replace(config, cancel_grace_period_sec=FOR_EVER_SEC), line):
        cancelled = line.behind.pop(1)
        await cancel(gateway, cancelled)
        run = await gateway.ends(cancelled)
        assert (run["status"], run["reason"], run["tasks"]) == ("CANCELLED", None, {})
        assert (await gateway.get(line.lasting))["status"] == "RUNNING"
        line.release.touch()
        await line.assert_all_completed_at_once(worker_id="worker")
        assert await eventually(lambda: queue_is_empty(gateway), describe="all jobs are acked")


@pytest.mark.usefixtures("patient")
async def test_a_time_limit_holds_in_line_too(
    config: NatsBackendConfig, gateway: RunningGateway, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes back to the queue, as one that was not begun, and its neighbours stay where they are."""
    async with serving_worker(config) as worker:
        limited = {"flow_name": "noop", "timeout_sec": 60.0}
        await line.form_at(worker, line.counting, limited, line.counting)
        with monkeypatch.context() as later:
            later.setattr(OwnedRun, "used_sec", 60.0)
            run = await gateway.reaches(line.behind[1], "PENDING")
        assert (run["attempt"], run["start_time"]) == (0, None)
        # It does not line up a second time: nobody is handed back again and again.
        buffer = worker._intake._tags[0].buffer

        async def has_come_again() -> bool:
            # It is PENDING a moment before it is in the queue, and a look in between finds nothing.
            await line.look_for_more(worker)
            return bool(buffer)

        await eventually(has_come_again, describe="it has come again")
        assert (await gateway.get(line.behind[1]))["status"] == "PENDING"
        for run_id in (line.lasting, line.behind[0], line.behind[2]):
            assert (await gateway.get(run_id))["status"] == "RUNNING"
        line.release.touch()
        for run_id in line.behind:
            assert (await gateway.ends(run_id))["status"] == "COMPLETED"


@pytest.mark.usefixtures("patient")
async def test_a_killed_executor_loses_and_repeats_nothing_but_the_run_it_had(
    config: NatsBackendConfig, gateway: RunningGateway, line: Line
) -> None:
    async with worker_with(config, line):
        os.kill(await line.begun(), signal.SIGKILL)
        crashed = await gateway.ends(line.lasting)
        assert (crashed["status"], crashed["reason"]) == ("FAILED", "executor_crashed")
        await line.assert_all_completed_at_once(worker_id="worker")


@pytest.mark.usefixtures("patient")
async def test_a_run_that_is_ended_by_force_takes_nobody_with_it(
    config: NatsBackendConfig, gateway: RunningGateway, line: Line
) -> None:
    async with serving_worker(replace(config, cancel_grace_period_sec=0.3)) as worker:
        await gateway.ends(await gateway.submit("noop"))
        deaf = await gateway.submit("deaf", params={"seconds": 600})
        await gateway.reaches(deaf, "RUNNING")
        line.behind.append(await gateway.submit(**line.counting))

        async def is_in_line() -> bool:
            await line.look_for_more(worker)
            return bool((await gateway.get(line.behind[0]))["status"] == "RUNNING")

        await eventually(is_in_line, describe="the run is in line")
        await cancel(gateway, deaf)
        run = await gateway.ends(deaf)
        assert (run["status"], run["reason"]) == ("CANCELLED", "cancel_forced")
        await line.assert_all_completed_at_once(worker_id="worker")


@pytest.mark.usefixtures("patient")
async def test_a_worker_that_drains_hands_its_line_over_and_finishes_what_runs(
    config: NatsBackendConfig, gateway: RunningGateway, line: Line
) -> None:
    formed = asyncio.Event()

    async def serve() -> None:
        async with worker_with(replace(config, drain_timeout_sec=20.0), line):
            formed.set()

    async with asyncio.TaskGroup() as group:
        serving = group.create_task(serve())
        await formed.wait()
        await eventually(line.is_free, describe="the line was handed over")
        assert not serving.done()
        line.release.touch()
    assert (await gateway.get(line.lasting))["status"] == "COMPLETED"
    async with serving_worker(config, worker_id="second"):
        await line.assert_all_completed_at_once(worker_id="second")


@pytest.mark.usefixtures("patient")
async def test_a_run_in_line_gets_the_new_code(
    config: NatsBackendConfig, gateway: RunningGateway, line: Line, tmp_path: Path
) -> None:
    folder = tmp_path / "flows"
    folder.mkdir()
    (folder / "basics.py").write_text((FLOWS / "basics.py").read_text())
    async with serving_worker(config, flows=folder) as worker:
        await line.form_at(worker, {"flow_name": "chain"}, {"flow_name": "chain"})
        source = (FLOWS / "basics.py").read_text().replace("return x + 1", "return x + 41")
        (folder / "basics.py").write_text(source)
        await eventually(line.is_free, describe="the line was dissolved")
        line.release.touch()
        for run_id in line.behind:
            run = await gateway.ends(run_id)
            assert run["task_records"]["load"]["output"] == 42


@pytest.mark.usefixtures("patient")
async def test_a_run_with_large_params_does_not_line_up(
    config: NatsBackendConfig, gateway: RunningGateway, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "_BUFFERED_SEC", FOR_EVER_SEC)
    async with serving_worker(config) as worker:
        await line.form_at(worker)
        await line.begun()
        large = await gateway.submit("noop", params={"text": "x" * 100_000})
        await line.look_for_more(worker)
        await eventually(
            lambda: worker._intake._tags[0].buffer, describe="the worker could have had it line up"
        )
        assert (await gateway.get(large))["status"] == "PENDING"
        line.release.touch()
        run = await gateway.ends(large)
        assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
