"""Runs that are queued at an executor process: they start after the current run, or not at all."""

import asyncio
import gc
import socket
import time
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pyoco_server.worker.child.executor_link import ExecutorLink
from pyoco_server.worker.executors import executor_handle
from pyoco_server.worker.executors.executor_handle import Execution
from pyoco_server.worker.executors.executor_pool import ExecutorPool
from pyoco_server.worker.ipc.prefetch_channel import PrefetchChannel
from pyoco_server.worker.ipc.protocol import Outcome, Progress, Run, frame
from pyoco_server.worker.session.slots import SMALL_JOB_BYTES
from tests.support.clocks import FakeClockLoop
from tests.support.inspection import started_pid
from tests.support.running.executors import (
    NO_EVENTS,
    ExecutorUnderTest,
    RunEventLog,
    new_run,
    new_setup,
    started_executor,
)
from tests.support.waiting import LIMIT_SEC, NEVER_SEC, eventually


@pytest.fixture
async def executor(executor: ExecutorUnderTest) -> ExecutorUnderTest:
    """Its last run was short."""
    await executor.execute(a_run("noop"))
    return executor


@pytest.fixture
def never_recalled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_handle, "_RECALL_AFTER_SEC", NEVER_SEC)
    monkeypatch.setattr(executor_handle, "_QUEUE_LENGTH", 3)


def a_run(flow: str, **params: Any) -> Run:
    return new_run(flow, f"run-of-{flow}-{time.monotonic_ns()}", **params)


class Lasting:
    """A run that lasts until its file is touched."""

    execution: "asyncio.Task[Outcome]"

    def __init__(self, folder: Path, name: str = "first") -> None:
        self.release = folder / f"release-{name}"
        self.marker = folder / f"started-{name}"
        self.run = a_run("waiting", path=str(self.release), started=str(self.marker))

    async def started(self) -> int:
        return await started_pid(self.marker)


async def begin_first(executor: ExecutorUnderTest, folder: Path) -> Lasting:
    first = Lasting(folder)
    first.execution = executor.begin(first.run)
    await eventually(lambda: is_current(executor, first.run), describe="the run was sent")
    return first


def is_current(executor: ExecutorUnderTest, run: Run) -> bool:
    current = executor.started.current
    return current is not None and current.run is run


class Queued:
    def __init__(self, executor: ExecutorUnderTest, run: Run, events: Any = NO_EVENTS) -> None:
        self._child = executor.started
        execution = self._child.enqueue(run, events)
        assert execution is not None
        self.execution: Execution = execution
        self._task = asyncio.create_task(self._end())

    async def _end(self) -> Outcome:
        async with asyncio.timeout(LIMIT_SEC):
            return await self._child.outcome_of(self.execution)

    def __await__(self) -> Any:
        return self._task.__await__()

    def recall(self) -> None:
        self._child.recall(only=self.execution)


@pytest.mark.usefixtures("never_recalled")
async def test_queued_runs_are_executed_in_order_with_their_own_events(
    executor: ExecutorUnderTest, tmp_path: Path
) -> None:
    first = await begin_first(executor, tmp_path)
    logs = [RunEventLog() for _ in range(3)]
    queue = [Queued(executor, a_run("speaking", text=f"I am {n}"), logs[n]) for n in range(3)]
    await first.started()
    assert executor.capacity == 0
    first.release.touch()
    outcomes = await asyncio.gather(first.execution, *queue)
    assert [outcome.status for outcome in outcomes] == ["COMPLETED"] * 4
    assert [each.texts for each in logs] == [["I am 0"], ["I am 1"], ["I am 2"]]
    began = [msgspec.json.decode(outcome.task_records["speak"])["started_at"] for outcome in outcomes[1:]]
    assert began == sorted(began)


async def test_a_full_queue_takes_jobs_of_the_largest_size(
    executor: ExecutorUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_handle, "_RECALL_AFTER_SEC", NEVER_SEC)
    first = await begin_first(executor, tmp_path)
    text = "x" * SMALL_JOB_BYTES
    runs = [a_run("speaking", text=text) for _ in range(executor_handle._QUEUE_LENGTH)]
    queue = [Queued(executor, run) for run in runs]
    await first.started()
    queue[7].recall()
    assert (await queue[7]).not_started
    first.release.touch()
    others = await asyncio.gather(first.execution, *queue[:7], *queue[8:])
    assert [outcome.status for outcome in others] == ["COMPLETED"] * executor_handle._QUEUE_LENGTH


async def test_a_run_does_not_wait_long_after_several_short_ones(
    executor: ExecutorUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_handle, "_RECALL_AFTER_SEC", 0.3)
    clock, real_sec = FakeClockLoop(), time.monotonic()
    monkeypatch.setattr(executor.started, "_loop", clock)
    monkeypatch.setattr(executor_handle, "time", SimpleNamespace(monotonic=lambda: real_sec + clock.time()))
    first = await begin_first(executor, tmp_path)
    runs = [Lasting(tmp_path, str(number)) for number in range(3)]
    queue = [Queued(executor, each.run) for each in runs]
    clock.advance(0.2)
    first.release.touch()
    assert (await first.execution).status == "COMPLETED"
    # The first of them starts in time; the others would have to wait for it as well.
    await runs[0].started()
    clock.advance(0.2)
    assert [(await each).not_started for each in queue[1:]] == [True, True]
    runs[0].release.touch()
    assert (await queue[0]).status == "COMPLETED"


async def test_runs_are_queued_only_after_one_that_is_probably_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_handle, "_RECALL_AFTER_SEC", NEVER_SEC)
    async with started_executor() as executor:
        first = await begin_first(executor, tmp_path)
        assert executor.capacity == 0, "no run has ended at this executor"
        await first.started()
        await asyncio.sleep(2 * executor_handle._QUEUE_SEC)  # longer than a short run
        first.release.touch()
        await first.execution
        first.release.unlink()
        first = await begin_first(executor, tmp_path)
        assert executor.capacity == 0, "its last run took long"
        first.release.touch()
        await first.execution
        async with asyncio.timeout(LIMIT_SEC):
            most = 0
            while not most:  # on a busy machine even this run may take long
                most = executor_handle.queue_limit((await executor.execute(a_run("noop"))).took_sec)
        assert executor.capacity == 0, "it has no current run"
        first.release.unlink()
        first = await begin_first(executor, tmp_path)
        assert executor.capacity == most
        monkeypatch.setattr(executor_handle, "_RECALL_AFTER_SEC", 0.0)
        assert executor.capacity == 0, "the current run is long"
        first.release.touch()
        await first.execution


@pytest.mark.parametrize("flow", ["waiting", "deaf"])
async def test_queued_runs_are_recalled_from_a_long_run_even_if_it_holds_the_gil(
    executor: ExecutorUnderTest, tmp_path: Path, flow: str
) -> None:
    release, counter = tmp_path / "release", tmp_path / "began"
    params = {"path": str(release)} if flow == "waiting" else {"seconds": 2.0}
    first = executor.begin(a_run(flow, **params))
    await eventually(lambda: executor.started.current, describe="the run was sent")
    queue = [Queued(executor, a_run("counting", counter=str(counter), seconds=0)) for _ in range(3)]
    assert all(outcome.not_started for outcome in [await each for each in queue])
    assert not first.done()
    assert executor.capacity == 0
    release.touch()
    assert (await first).status == "COMPLETED"
    assert not counter.exists()


@pytest.mark.usefixtures("never_recalled")
async def test_a_retired_executor_recalls_its_queue(executor: ExecutorUnderTest, tmp_path: Path) -> None:
    first = await begin_first(executor, tmp_path)
    await first.started()
    waiting = Queued(executor, a_run("noop"))
    executor.retire()
    assert (await waiting).not_started
    assert executor.capacity == 0
    first.release.touch()
    assert (await first.execution).status == "COMPLETED"


@pytest.mark.usefixtures("never_recalled")
@pytest.mark.parametrize("daemon", [True, False])
async def test_an_executor_that_must_restart_starts_no_queued_run(
    executor: ExecutorUnderTest, daemon: bool
) -> None:
    """Not even if a thread of the run delays its exit."""
    first = executor.begin(a_run("threading", daemon=daemon))
    await asyncio.sleep(0)
    assert executor.started.current is not None
    waiting = Queued(executor, a_run("noop"))
    assert (await first).must_restart
    assert (await waiting).not_started


@pytest.mark.usefixtures("never_recalled")
async def test_a_large_run_is_not_queued_and_no_run_is_queued_after_it(
    executor: ExecutorUnderTest, tmp_path: Path
) -> None:
    first = await begin_first(executor, tmp_path)
    assert executor.started.enqueue(a_run("noop", text="x" * 40_000), NO_EVENTS) is None
    first.release.touch()
    await first.execution
    await executor.execute(a_run("noop"))
    first.release.unlink()
    params = {"path": str(first.release), "padding": "x" * 1_000_000}
    large = executor.begin(a_run("waiting", **params))
    await eventually(lambda: executor.started.current, describe="the run was sent")
    assert executor.capacity == 0
    first.release.touch()
    assert (await large).status == "COMPLETED"


@pytest.mark.usefixtures("never_recalled")
async def test_a_run_that_was_queued_for_too_long_is_not_started(
    executor: ExecutorUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker was paused, and it may have another owner by now."""
    counter = tmp_path / "began"
    first = await begin_first(executor, tmp_path)
    await first.started()
    long_ago = time.monotonic() - new_setup().start_within_sec
    with monkeypatch.context() as then:
        then.setattr(executor_handle, "time", SimpleNamespace(monotonic=lambda: long_ago))
        waiting = Queued(executor, a_run("counting", counter=str(counter), seconds=0))
    first.release.touch()
    assert (await first.execution).status == "COMPLETED"
    assert (await waiting).not_started
    assert not counter.exists()
    assert (await executor.execute(a_run("noop"))).status == "COMPLETED"


@pytest.mark.usefixtures("never_recalled")
async def test_a_forced_end_does_not_affect_the_next_run(executor: ExecutorUnderTest, tmp_path: Path) -> None:
    """The command arrives when the executor has started the next run."""
    first, second = await begin_first(executor, tmp_path), Lasting(tmp_path, "second")
    await first.started()
    waiting = Queued(executor, second.run)
    transport = executor.started.transport
    assert transport is not None
    # The outcome of the first run is not read yet.
    transport.pause_reading()
    first.release.touch()
    await second.started()
    ending = asyncio.create_task(executor.lease.force_end("FAILED", "too long"))
    await asyncio.sleep(0)
    transport.resume_reading()
    assert (await first.execution).status == "COMPLETED"
    await ending
    second.release.touch()
    assert (await waiting).status == "COMPLETED"


@pytest.mark.usefixtures("never_recalled")
async def test_an_ended_run_is_freed_without_the_garbage_collector(executor: ExecutorUnderTest) -> None:
    """A cycle for each run cost the worker a tenth of its CPU time."""
    with await ExecutorPool([executor], allowance=0).reserve() as lease:
        # As in a session, whose events and lease refer to each other.
        events = RunEventLog()
        events.lease = lease  # type: ignore[attr-defined]
        await lease.execute(a_run("noop"), events)
    freed = weakref.ref(events)
    gc.disable()
    try:
        del events, lease
        await asyncio.sleep(0)
        assert freed() is None
    finally:
        gc.enable()


async def test_progress_of_an_ended_run_is_ignored(executor: ExecutorUnderTest, tmp_path: Path) -> None:
    first = await begin_first(executor, tmp_path)
    executor.started.data_received(frame(Progress(run_id="another", tasks={"late": "RUNNING"})))
    assert executor.started.progress() is None
    executor.started.data_received(frame(Progress(run_id=first.run.run_id, tasks={"mine": "RUNNING"})))
    progress = executor.started.progress()
    assert progress is not None
    assert progress.tasks == {"mine": "RUNNING"}
    first.release.touch()
    await first.execution


def test_an_executor_without_a_worker_starts_no_queued_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr("os._exit", leave)
    ours, theirs = socket.socketpair()
    channel = PrefetchChannel()
    with theirs:
        link = ExecutorLink(
            theirs, channel.reading, on_message=print, on_silence=lambda: None, on_end=lambda: None
        )
        assert channel.send(a_run("noop"))
        assert isinstance(link.next(), Run)
        assert channel.send(a_run("noop"))
        ours.close()
        with pytest.raises(SystemExit):
            link.next()
    channel.close()
