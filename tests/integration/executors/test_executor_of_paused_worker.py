"""An executor ends its run soon after its worker is paused, however much its tasks print."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.worker.executors.executor import ExecutorCrashed
from pyoco_server.worker.ipc.pipes import unread_bytes
from pyoco_server.worker.ipc.protocol import ForceEnd
from tests.support.clocks import FakeClockLoop
from tests.support.running.executors import ExecutorUnderTest, RunEventLog, new_run, started_executor
from tests.support.waiting import LIMIT_SEC, NEVER_SEC, eventually

FLOWS = """
import os, sys, threading
from pathlib import Path
from pyoco import Flow, task

def flow(function, **options):
    made = Flow(name=function.__name__)
    made >> task(function)
    for key, value in options.items():
        setattr(next(iter(made.tasks)), key, value)
    return made

def floods():
    while True:
        print("x" * 1000)

def floods_past_its_limit():
    floods()

def loses_its_output():
    os.close(int(sys.argv[3]))
    os.write(1, b"to a reader that fails\\n")
    threading.Event().wait()

first, second = flow(floods), flow(floods_past_its_limit, timeout_sec=0.5)
third = flow(loses_its_output)
"""
UNLIMITED_OUTPUT = 1 << 40


@asynccontextmanager
async def flooding_executor(folder: Path, **fields: Any) -> AsyncIterator[ExecutorUnderTest]:
    (folder / "flows.py").write_text(FLOWS)
    async with started_executor(folder, log_run_max_bytes=UNLIMITED_OUTPUT, **fields) as executor:
        async with asyncio.timeout(LIMIT_SEC):
            yield executor


def requested_progress(executor: ExecutorUnderTest) -> None:
    """The worker sends nothing after this."""
    executor.started.progress()


def forced_cancel(executor: ExecutorUnderTest) -> None:
    executor.started.send(ForceEnd(run_id="r", status="CANCELLED", error="it did not stop"))


def time_limit(executor: ExecutorUnderTest) -> None:
    """That of the task."""


@pytest.mark.parametrize(
    ("flow", "why", "silence_sec", "expected"),
    [
        ("floods", requested_progress, 1.0, ("RUNNING", True, None)),
        ("floods", forced_cancel, NEVER_SEC, ("CANCELLED", False, "it did not stop")),
        (
            "floods_past_its_limit",
            time_limit,
            NEVER_SEC,
            ("FAILED", False, "task floods_past_its_limit: it took longer than its limit of 0.5 s"),
        ),
    ],
    ids=["silence", "forced cancel", "time limit"],
)
async def test_an_executor_exits_while_it_prints_to_a_worker_that_does_not_read(
    tmp_path: Path,
    flow: str,
    why: Callable[[ExecutorUnderTest], None],
    silence_sec: float,
    expected: tuple[str, bool, str | None],
) -> None:
    async with flooding_executor(tmp_path, max_silence_sec=silence_sec) as executor:
        child, transport = executor.started, executor.started.transport
        assert transport is not None
        # Its timers would read.
        child._loop = child._time_limits._loop = FakeClockLoop()  # type: ignore[assignment]
        execution = executor.begin(new_run(flow))
        await eventually(lambda: child.current, describe="the run was sent")
        transport.pause_reading()
        unread = transport.get_extra_info("socket").fileno()
        await eventually(lambda: unread_bytes(unread) > 50_000, describe="the task prints")
        why(executor)
        await asyncio.wait({child.exited})
        transport.resume_reading()
        outcome = await execution
        assert (outcome.status, outcome.must_continue, outcome.error) == expected


async def test_a_run_ends_when_its_output_cannot_be_read(tmp_path: Path) -> None:
    events = RunEventLog()
    async with flooding_executor(tmp_path) as executor:
        with pytest.raises(ExecutorCrashed, match="exited with code 1"):
            await executor.execute(new_run("loses_its_output"), events)
    assert events.texts[0] == "to a reader that fails"


async def test_the_folder_of_a_run_that_was_not_started_is_kept(tmp_path: Path) -> None:
    """Its attempt number is used again: another executor may work in it."""
    run = new_run("floods")
    run.directory = str(tmp_path / "r-1")
    async with flooding_executor(tmp_path, start_within_sec=0.0) as executor:
        assert (await executor.execute(run)).not_started
        os.makedirs(f"{run.directory}/artifacts")
        await executor.close()
        assert os.listdir(run.directory) == ["artifacts"]
