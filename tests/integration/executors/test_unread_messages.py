"""Decisions of a worker that has not read its executor's messages yet, because it was paused.

A worker runs on uvloop, whose timers fire before it reads.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyoco_server.worker.executors import executor_handle
from pyoco_server.worker.executors.executor import TaskTimedOut
from pyoco_server.worker.ipc.protocol import Outcome, Ready, Run
from tests.support.clocks import FakeClockLoop
from tests.support.running.executors import ExecutorUnderTest, new_run, started_executor
from tests.support.waiting import eventually

TASK_LIMIT_SEC = 600.0
FLOWS = f"""
import threading, time
from pathlib import Path
from pyoco import Flow, task

def wait(folder, name, ctx):
    (Path(folder) / f"{{name}}-began").touch()
    while not (Path(folder) / f"{{name}}-may-end").exists() and not ctx.is_cancelled:
        time.sleep(0.01)

@task
def limited(ctx, folder):
    wait(folder, "limited", ctx)

@task
def after(ctx, folder, limited):
    wait(folder, "after", ctx)

@task
def leave_a_thread(ctx, folder):
    wait(folder, "threading", ctx)
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()

limited.task.timeout_sec = {TASK_LIMIT_SEC}
chain, threading_flow = Flow(name="chain"), Flow(name="threading")
chain >> limited >> after
threading_flow >> leave_a_thread
"""


@pytest.fixture
async def executor(tmp_path: Path) -> AsyncIterator[ExecutorUnderTest]:
    flows = tmp_path / "flows"
    flows.mkdir()
    (flows / "waiting.py").write_text(FLOWS)
    async with started_executor(flows) as executor:
        yield executor


def a_run(flow: str, folder: Path) -> Run:
    return new_run(flow, folder=str(folder))


def stop_reading(executor: ExecutorUnderTest) -> None:
    assert executor.started.transport is not None
    executor.started.transport.pause_reading()


async def started(folder: Path, name: str) -> None:
    await eventually((folder / f"{name}-began").exists, describe=f"{name} has started")


async def arrived(executor: ExecutorUnderTest, message: type) -> None:
    """Wait until the message is in the socket, unread."""
    transport = executor.started.transport
    assert transport is not None
    with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as same:

        def is_there() -> bool:
            try:
                return message.__name__.encode() in same.recv(1 << 20, socket.MSG_PEEK)
            except BlockingIOError:
                return False

        await eventually(is_there, describe=f"an unread {message.__name__}")


async def test_a_task_that_ended_within_its_limit_has_not_timed_out(
    executor: ExecutorUnderTest, tmp_path: Path
) -> None:
    child, clock = executor.started, FakeClockLoop()
    child._loop = child._time_limits._loop = clock  # type: ignore[assignment]
    execution = executor.begin(a_run("chain", tmp_path))
    await eventually(lambda: child._time_limits._timers, describe="the limit is known")
    stop_reading(executor)
    (tmp_path / "limited-may-end").touch()
    await started(tmp_path, "after")
    clock.advance(TASK_LIMIT_SEC * 2)
    (tmp_path / "after-may-end").touch()
    assert child.transport is not None
    child.transport.resume_reading()
    assert (await execution).status == "COMPLETED"


async def test_a_task_past_its_limit_has_timed_out(executor: ExecutorUnderTest, tmp_path: Path) -> None:
    child, clock = executor.started, FakeClockLoop()
    child._loop = child._time_limits._loop = clock  # type: ignore[assignment]
    execution = executor.begin(a_run("chain", tmp_path))
    await eventually(lambda: child._time_limits._timers, describe="the limit is known")
    clock.advance(TASK_LIMIT_SEC * 2)
    await asyncio.wait({child.exited})
    clock.advance(TASK_LIMIT_SEC)
    with pytest.raises(TaskTimedOut):
        await execution


@pytest.mark.parametrize("then", ["a failed write", "its exit"])
async def test_the_outcome_of_an_exited_executor_is_not_lost(
    executor: ExecutorUnderTest, tmp_path: Path, then: str
) -> None:
    child, clock = executor.started, FakeClockLoop()
    execution = executor.begin(a_run("threading", tmp_path))
    await started(tmp_path, "threading")
    stop_reading(executor)
    child._loop = clock  # type: ignore[assignment]
    (tmp_path / "threading-may-end").touch()
    await asyncio.wait({child.exited})
    if then == "a failed write":
        child.progress()
    else:
        await asyncio.sleep(0)
        clock.advance(executor_handle._LAST_MESSAGES_SEC)
    assert (await execution).status == "COMPLETED"


async def test_a_run_that_stopped_by_itself_is_not_forced(
    executor: ExecutorUnderTest, tmp_path: Path
) -> None:
    execution = executor.begin(a_run("chain", tmp_path))
    await started(tmp_path, "limited")
    stop_reading(executor)
    executor.lease.cancel("r")
    await arrived(executor, Outcome)
    await executor.lease.force_end("FAILED", "the flow did not stop")
    outcome = await execution
    assert (outcome.status, outcome.error) == ("CANCELLED", None)


async def test_an_executor_that_was_ready_in_time_is_used(
    executor: ExecutorUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    await executor.close()

    async def time_is_up(*_: object, timeout_sec: float | None) -> None:
        stop_reading(executor)
        await arrived(executor, Ready)

    monkeypatch.setattr(executor_handle, "_first_of", time_is_up)
    await executor.start()
    assert "chain" in executor.ready.flows
    monkeypatch.undo()
