"""A run does not go on for long without its worker, however much its tasks print."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker.executors.executor import ExecutorCrashed
from pyoco_server.worker.executors.process_executor import ProcessExecutor
from pyoco_server.worker.ipc.pipe_reads import unread_bytes
from pyoco_server.worker.ipc.protocol import Abandon, Run, Setup
from tests.support.clocks import SetLoop
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
NOBODY: Any = SimpleNamespace(finished=lambda _: None, asked=lambda _: None, printed=lambda _: None)
UNLIMITED_OUTPUT = 1 << 40


@asynccontextmanager
async def having_executor(folder: Path, **settings: Any) -> AsyncIterator[ProcessExecutor]:
    (folder / "flows.py").write_text(FLOWS)
    setup = Setup.from_config(NatsBackendConfig(), flows=str(folder))
    executor = ProcessExecutor(msgspec.structs.replace(setup, log_run_max_bytes=UNLIMITED_OUTPUT, **settings))
    try:
        await executor.start()
        async with asyncio.timeout(LIMIT_SEC):
            yield executor
    finally:
        await executor.abandon()
        await executor.close()


def a_run(flow: str) -> Run:
    return Run(run_id="r", flow_name=flow, params=b"{}")


def a_silent_worker(executor: ProcessExecutor) -> None:
    """It has asked for progress before it was paused."""
    executor.progress()


def a_forced_cancel(executor: ProcessExecutor) -> None:
    assert executor._link is not None
    executor._link.send(Abandon(run_id="r", status="CANCELLED", error="it did not stop"))


def a_time_limit(executor: ProcessExecutor) -> None:
    """That of the task."""


@pytest.mark.parametrize(
    ("flow", "why", "silence_sec", "expected"),
    [
        ("floods", a_silent_worker, 1.0, ("RUNNING", True, None)),
        ("floods", a_forced_cancel, NEVER_SEC, ("CANCELLED", False, "it did not stop")),
        (
            "floods_past_its_limit",
            a_time_limit,
            NEVER_SEC,
            ("FAILED", False, "task floods_past_its_limit: it took longer than its limit of 0.5 s"),
        ),
    ],
    ids=["silence", "forced cancel", "time limit"],
)
async def test_an_executor_leaves_although_it_prints_to_a_worker_that_does_not_read(
    tmp_path: Path,
    flow: str,
    why: Callable[[ProcessExecutor], None],
    silence_sec: float,
    expected: tuple[str, bool, str | None],
) -> None:
    async with having_executor(tmp_path, max_silence_sec=silence_sec) as executor:
        assert executor._link is not None
        assert executor._exited is not None
        transport: Any = executor._link.transport
        # Its timers would read.
        executor._link._loop = SetLoop()  # type: ignore[assignment]
        execution = asyncio.create_task(executor.execute(a_run(flow), NOBODY))
        await eventually(lambda: executor.current, describe="the run is under way")
        transport.pause_reading()
        unread = transport.get_extra_info("socket").fileno()
        await eventually(lambda: unread_bytes(unread) > 50_000, describe="the task prints")
        why(executor)
        await asyncio.wait({executor._exited})
        transport.resume_reading()
        outcome = await execution
        assert (outcome.status, outcome.go_on, outcome.error) == expected


async def test_a_run_ends_whose_output_cannot_be_read_any_more(tmp_path: Path) -> None:
    lines: list[str] = []
    events: Any = SimpleNamespace(printed=lambda found: lines.extend(line.text for line in found))
    async with having_executor(tmp_path) as executor:
        with pytest.raises(ExecutorCrashed, match="exited with code 1"):
            await executor.execute(a_run("loses_its_output"), events)
    assert lines[0] == "to a reader that fails"


async def test_the_folder_of_a_run_that_was_not_begun_is_left_to_others(tmp_path: Path) -> None:
    run = a_run("floods")
    run.directory = str(tmp_path / "r-1")
    async with having_executor(tmp_path, begin_within_sec=0.0) as executor:
        assert (await executor.execute(run, NOBODY)).not_begun
        os.makedirs(f"{run.directory}/artifacts")
        await executor.close()
        assert os.listdir(run.directory) == ["artifacts"]
