"""Runs in line at an executor process: they are begun after the run in front, or were never begun at all."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.models import JournalEntry, LogLine
from pyoco_server.records.wait_models import Question
from pyoco_server.worker.child.executor_link import ExecutorLink
from pyoco_server.worker.executors import process_link
from pyoco_server.worker.executors.executor import ExecutorCrashed
from pyoco_server.worker.executors.process_executor import ProcessExecutor
from pyoco_server.worker.ipc.prefetch_channel import AheadChannel
from pyoco_server.worker.ipc.protocol import Outcome, Progress, Run, Setup, frame
from pyoco_server.worker.session.slots import SMALL_JOB_BYTES
from tests.support.clocks import SetLoop
from tests.support.inspection import started_pid
from tests.support.places import FLOWS
from tests.support.waiting import LIMIT_SEC, eventually

# Long enough that nothing is taken back unless a test makes it happen.
FOR_EVER_SEC = 600.0


class Heard:
    """What was told of one run."""

    def __init__(self) -> None:
        self.entries: list[JournalEntry] = []
        self.lines: list[str] = []
        self.questions: list[Question] = []

    def finished(self, entry: JournalEntry) -> None:
        self.entries.append(entry)

    def asked(self, question: Question) -> None:
        self.questions.append(question)

    def printed(self, lines: list[LogLine]) -> None:
        self.lines += [line.text for line in lines]


@pytest.fixture
def setup() -> Setup:
    return Setup.from_config(NatsBackendConfig(), flows=str(FLOWS))


@pytest.fixture
async def executor(setup: Setup) -> AsyncIterator[ProcessExecutor]:
    """An executor whose last run was short."""
    executor = ProcessExecutor(setup)
    await executor.start()
    try:
        await executor.execute(a_run("noop"), Heard())
        yield executor
    finally:
        await executor.abandon()
        await executor.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_link, "_PATIENCE_SEC", FOR_EVER_SEC)
    monkeypatch.setattr(process_link, "_LINE", 3)


def a_run(flow: str, **params: Any) -> Run:
    return Run(
        run_id=f"run-of-{flow}-{time.monotonic_ns()}", flow_name=flow, params=msgspec.json.encode(params)
    )


class Lasting:
    """A run that lasts until it is let go."""

    execution: "asyncio.Task[Outcome]"

    def __init__(self, folder: Path, name: str = "front") -> None:
        self.release = folder / f"release-{name}"
        self.marker = folder / f"started-{name}"
        self.run = a_run("waiting", path=str(self.release), started=str(self.marker))

    async def begun(self) -> int:
        return await started_pid(self.marker)


async def in_front(executor: ProcessExecutor, folder: Path) -> Lasting:
    front = Lasting(folder)
    front.execution = asyncio.create_task(executor.execute(front.run, Heard()))
    await eventually(lambda: executor.current is front.run, describe="the run was sent")
    return front


def lined_up(executor: ProcessExecutor, run: Run, heard: Heard | None = None) -> "asyncio.Task[Outcome]":
    end = executor.line_up(run, heard or Heard())
    assert end is not None

    async def ended(end: Coroutine[None, None, Outcome]) -> Outcome:
        async with asyncio.timeout(LIMIT_SEC):
            return await end

    return asyncio.create_task(ended(end))


@pytest.mark.usefixtures("patient")
async def test_runs_in_line_are_executed_in_their_order_and_each_is_told_of_itself(
    executor: ProcessExecutor, tmp_path: Path
) -> None:
    front = await in_front(executor, tmp_path)
    heard = [Heard() for _ in range(3)]
    line = [lined_up(executor, a_run("speaking", text=f"I am {n}"), heard[n]) for n in range(3)]
    await front.begun()
    assert executor.room == 0
    front.release.touch()
    outcomes = await asyncio.gather(front.execution, *line)
    assert [outcome.status for outcome in outcomes] == ["COMPLETED"] * 4
    assert [each.lines for each in heard] == [["I am 0"], ["I am 1"], ["I am 2"]]
    began = [msgspec.json.decode(outcome.task_records["speak"])["started_at"] for outcome in outcomes[1:]]
    assert began == sorted(began)


@pytest.mark.parametrize(
    ("took_sec", "most"),
    [(0.0, 15), (0.0001, 15), (0.001, 10), (0.004, 2), (0.01, 1), (0.0101, 0), (60.0, 0)],
)
def test_a_line_is_as_long_as_its_last_run_will_be_begun_soon(took_sec: float, most: int) -> None:
    assert process_link.line_behind(took_sec) == most


async def test_a_line_of_full_length_takes_jobs_of_any_size_that_may_wait(
    executor: ProcessExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in production: as many as there may be, each as large as it may be."""
    monkeypatch.setattr(process_link, "_PATIENCE_SEC", FOR_EVER_SEC)
    front = await in_front(executor, tmp_path)
    text = "x" * SMALL_JOB_BYTES
    runs = [a_run("speaking", text=text) for _ in range(process_link._LINE)]
    line = [lined_up(executor, run) for run in runs]
    await front.begun()
    executor.take_back(runs[7])
    assert (await line[7]).not_begun
    front.release.touch()
    others = await asyncio.gather(front.execution, *line[:7], *line[8:])
    assert [outcome.status for outcome in others] == ["COMPLETED"] * process_link._LINE


async def test_nobody_waits_long_behind_several_of_which_none_lasts(
    executor: ProcessExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_link, "_PATIENCE_SEC", 0.3)
    clock, real_sec = SetLoop(), time.monotonic()
    assert executor._link is not None
    monkeypatch.setattr(executor._link, "_loop", clock)
    monkeypatch.setattr(process_link, "time", SimpleNamespace(monotonic=lambda: real_sec + clock.time()))
    front = await in_front(executor, tmp_path)
    runs = [Lasting(tmp_path, str(number)) for number in range(3)]
    line = [lined_up(executor, each.run) for each in runs]
    clock.advance(0.2)
    front.release.touch()
    assert (await front.execution).status == "COMPLETED"
    # The second has its turn in time; the others would have to wait for it as well.
    await runs[0].begun()
    clock.advance(0.2)
    assert [(await each).not_begun for each in line[1:]] == [True, True]
    runs[0].release.touch()
    assert (await line[0]).status == "COMPLETED"


async def test_there_is_room_only_behind_a_run_that_is_probably_short(
    setup: Setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_link, "_PATIENCE_SEC", FOR_EVER_SEC)
    executor = ProcessExecutor(setup)
    await executor.start()
    try:
        front = await in_front(executor, tmp_path)
        assert executor.room == 0, "nothing is known of this executor's runs"
        await front.begun()
        await asyncio.sleep(2 * process_link._SHORT_SEC)  # so that it takes long
        front.release.touch()
        await front.execution
        front.release.unlink()
        front = await in_front(executor, tmp_path)
        assert executor.room == 0, "its last run took long"
        front.release.touch()
        await front.execution
        async with asyncio.timeout(LIMIT_SEC):
            most = 0
            while not most:  # on a busy machine even this run may take long
                most = process_link.line_behind((await executor.execute(a_run("noop"), Heard())).took_sec)
        assert executor.room == 0, "it has no run, and is to be given one"
        front.release.unlink()
        front = await in_front(executor, tmp_path)
        assert executor.room == most
        monkeypatch.setattr(process_link, "_PATIENCE_SEC", 0.0)
        assert executor.room == 0, "the run in front lasts"
        front.release.touch()
        await front.execution
    finally:
        await executor.abandon()
        await executor.close()


@pytest.mark.parametrize("flow", ["waiting", "deaf"])
async def test_a_run_in_front_that_lasts_gives_back_who_waits_even_if_it_holds_the_gil(
    executor: ProcessExecutor, tmp_path: Path, flow: str
) -> None:
    release, counter = tmp_path / "release", tmp_path / "began"
    params = {"path": str(release)} if flow == "waiting" else {"seconds": 2.0}
    front = asyncio.create_task(executor.execute(a_run(flow, **params), Heard()))
    await eventually(lambda: executor.current, describe="the run was sent")
    line = [lined_up(executor, a_run("counting", counter=str(counter), seconds=0)) for _ in range(3)]
    assert all(outcome.not_begun for outcome in await asyncio.gather(*line))
    assert not front.done()
    assert executor.room == 0
    release.touch()
    assert (await front).status == "COMPLETED"
    assert not counter.exists()


@pytest.mark.usefixtures("patient")
async def test_a_killed_executor_takes_only_the_run_with_it_that_it_had(
    executor: ProcessExecutor, tmp_path: Path
) -> None:
    counter = tmp_path / "began"
    front = await in_front(executor, tmp_path)
    line = [lined_up(executor, a_run("counting", counter=str(counter), seconds=0)) for _ in range(3)]
    os.kill(await front.begun(), signal.SIGKILL)
    with pytest.raises(ExecutorCrashed, match="SIGKILL"):
        await front.execution
    assert all(outcome.not_begun for outcome in await asyncio.gather(*line))
    assert not counter.exists()


@pytest.mark.usefixtures("patient")
async def test_one_run_is_taken_back_and_the_others_stay_in_line(
    executor: ProcessExecutor, tmp_path: Path
) -> None:
    front = await in_front(executor, tmp_path)
    await front.begun()
    runs = [a_run("speaking", text=str(number)) for number in range(3)]
    heard = [Heard() for _ in runs]
    line = [lined_up(executor, run, each) for run, each in zip(runs, heard, strict=True)]
    executor.take_back(runs[1])
    assert (await line[1]).not_begun
    assert [executor.waits(run) for run in runs] == [True, False, True]
    front.release.touch()
    assert [(await line[number]).status for number in (0, 2)] == ["COMPLETED"] * 2
    assert [each.lines for each in heard] == [["0"], [], ["2"]]
    assert (await front.execution).status == "COMPLETED"


@pytest.mark.usefixtures("patient")
async def test_new_code_is_not_waited_for_in_the_line_of_the_old(
    executor: ProcessExecutor, tmp_path: Path
) -> None:
    front = await in_front(executor, tmp_path)
    await front.begun()
    waiting = lined_up(executor, a_run("noop"))
    executor.retire()
    assert (await waiting).not_begun
    assert executor.room == 0
    front.release.touch()
    assert (await front.execution).status == "COMPLETED"


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("daemon", [True, False])
async def test_a_spoilt_executor_begins_no_run_of_its_line(executor: ProcessExecutor, daemon: bool) -> None:
    """Not even one that lingers because of the thread that the run has left."""
    front = asyncio.create_task(executor.execute(a_run("threading", daemon=daemon), Heard()))
    await asyncio.sleep(0)
    assert executor.current is not None
    waiting = lined_up(executor, a_run("noop"))
    assert (await front).spoilt
    assert (await waiting).not_begun


@pytest.mark.usefixtures("patient")
async def test_a_large_run_neither_waits_nor_has_others_wait_behind_it(
    executor: ProcessExecutor, tmp_path: Path
) -> None:
    front = await in_front(executor, tmp_path)
    assert executor.line_up(a_run("noop", text="x" * 40_000), Heard()) is None
    front.release.touch()
    await front.execution
    await executor.execute(a_run("noop"), Heard())
    front.release.unlink()
    params = {"path": str(front.release), "padding": "x" * 1_000_000}
    large = asyncio.create_task(executor.execute(a_run("waiting", **params), Heard()))
    await eventually(lambda: executor.current, describe="the run was sent")
    assert executor.room == 0
    front.release.touch()
    assert (await large).status == "COMPLETED"


@pytest.mark.usefixtures("patient")
async def test_a_run_that_has_waited_for_too_long_is_not_begun(
    setup: Setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker was paused, and it may be another's by now."""
    begin_within_sec = setup.begin_within_sec
    executor = ProcessExecutor(setup)
    counter = tmp_path / "began"
    try:
        await executor.execute(a_run("noop"), Heard())
        front = await in_front(executor, tmp_path)
        await front.begun()
        long_ago = time.monotonic() - begin_within_sec
        with monkeypatch.context() as then:
            then.setattr(process_link, "time", SimpleNamespace(monotonic=lambda: long_ago))
            waiting = lined_up(executor, a_run("counting", counter=str(counter), seconds=0))
        front.release.touch()
        assert (await front.execution).status == "COMPLETED"
        assert (await waiting).not_begun
        assert not counter.exists()
        assert (await executor.execute(a_run("noop"), Heard())).status == "COMPLETED"
    finally:
        await executor.abandon()
        await executor.close()


@pytest.mark.usefixtures("patient")
async def test_ending_a_run_by_force_leaves_another_alone(executor: ProcessExecutor, tmp_path: Path) -> None:
    """The word for one run comes when the executor has begun the next."""
    front, follower = await in_front(executor, tmp_path), Lasting(tmp_path, "follower")
    await front.begun()
    waiting = lined_up(executor, follower.run)
    assert executor._link is not None
    transport = executor._link.transport
    assert transport is not None
    # What the executor says of the run in front is not heard yet.
    transport.pause_reading()
    front.release.touch()
    await follower.begun()
    giving_up = asyncio.create_task(executor.give_up("FAILED", "too long"))
    await asyncio.sleep(0)
    transport.resume_reading()
    assert (await front.execution).status == "COMPLETED"
    await giving_up
    follower.release.touch()
    assert (await waiting).status == "COMPLETED"


@pytest.mark.usefixtures("patient")
async def test_progress_of_a_run_that_has_just_ended_is_not_taken_for_the_next_ones(
    executor: ProcessExecutor, tmp_path: Path
) -> None:
    front = await in_front(executor, tmp_path)
    assert executor._link is not None
    executor._link.data_received(frame(Progress(run_id="another", tasks={"late": "RUNNING"})))
    assert executor.progress() is None
    executor._link.data_received(frame(Progress(run_id=front.run.run_id, tasks={"mine": "RUNNING"})))
    progress = executor.progress()
    assert progress is not None
    assert progress.tasks == {"mine": "RUNNING"}
    front.release.touch()
    await front.execution


def test_an_executor_whose_worker_has_gone_begins_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr("os._exit", leave)
    ours, theirs = socket.socketpair()
    channel = AheadChannel()
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
