"""Decisions of a worker that has not read yet what its executor has reported: it may have been paused.

A worker runs on uvloop, whose timers come before what has arrived.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import uvloop

from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker.executors import process_executor
from pyoco_server.worker.executors.executor import TaskOverdue
from pyoco_server.worker.executors.executor_pool import ExecutorPool
from pyoco_server.worker.executors.process_executor import ProcessExecutor
from pyoco_server.worker.executors.process_link import LAST_WORDS_SEC, ProcessLink
from pyoco_server.worker.ipc.protocol import Outcome, Ready, Run, Setup
from tests.support.clocks import SetLoop
from tests.support.waiting import LIMIT_SEC, eventually

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
    wait(folder, "spoiling", ctx)
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()

limited.task.timeout_sec = {TASK_LIMIT_SEC}
chain, spoiling = Flow(name="chain"), Flow(name="spoiling")
chain >> limited >> after
spoiling >> leave_a_thread
"""
Test = Callable[[ProcessExecutor, Path], Awaitable[None]]
NOBODY: Any = SimpleNamespace(finished=lambda _: None, asked=lambda _: None, printed=lambda _: None)


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def with_executor(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Test], None]:
    """Runs a test on one of the two loops, with an executor that is ready."""

    async def run(test: Test) -> None:
        async with having_executor(tmp_path) as executor, asyncio.timeout(LIMIT_SEC):
            await executor.start()
            await test(executor, tmp_path)

    def with_loop(test: Test) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(run(test))

    return with_loop


@asynccontextmanager
async def having_executor(folder: Path) -> AsyncIterator[ProcessExecutor]:
    flows = folder / "flows"
    flows.mkdir()
    (flows / "waiting.py").write_text(FLOWS)
    executor = ProcessExecutor(Setup.from_config(NatsBackendConfig(), flows=str(flows)))
    try:
        yield executor
    finally:
        await executor.abandon()
        await executor.close()


def a_run(flow: str, folder: Path) -> Run:
    return Run(run_id="r", flow_name=flow, params=msgspec.json.encode({"folder": str(folder)}))


def link_of(executor: ProcessExecutor) -> ProcessLink:
    assert executor._link is not None
    return executor._link


def stop_reading(executor: ProcessExecutor) -> None:
    transport = link_of(executor).transport
    assert transport is not None
    transport.pause_reading()


def go_on_reading(executor: ProcessExecutor) -> None:
    transport = link_of(executor).transport
    assert transport is not None
    transport.resume_reading()


async def begun(folder: Path, name: str) -> None:
    await eventually((folder / f"{name}-began").exists, describe=f"{name} has begun")


async def arrived(executor: ProcessExecutor, message: type) -> None:
    """Wait until the message is in the socket, unread."""
    transport = link_of(executor).transport
    assert transport is not None
    with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as same:

        def is_there() -> bool:
            try:
                return message.__name__.encode() in same.recv(1 << 20, socket.MSG_PEEK)
            except BlockingIOError:
                return False

        await eventually(is_there, describe=f"an unread {message.__name__}")


def test_a_task_that_ended_within_its_limit_is_not_overdue(with_executor: Callable[[Test], None]) -> None:
    async def test(executor: ProcessExecutor, folder: Path) -> None:
        link, clock = link_of(executor), SetLoop()
        link._loop = clock  # type: ignore[assignment]
        execution = asyncio.create_task(executor.execute(a_run("chain", folder), NOBODY))
        await eventually(lambda: link._limits, describe="the limit is known")
        stop_reading(executor)
        (folder / "limited-may-end").touch()
        await begun(folder, "after")
        clock.advance(TASK_LIMIT_SEC * 2)
        (folder / "after-may-end").touch()
        go_on_reading(executor)
        assert (await execution).status == "COMPLETED"

    with_executor(test)


def test_a_task_past_its_limit_is_overdue(with_executor: Callable[[Test], None]) -> None:
    async def test(executor: ProcessExecutor, folder: Path) -> None:
        link, clock = link_of(executor), SetLoop()
        link._loop = clock  # type: ignore[assignment]
        execution = asyncio.create_task(executor.execute(a_run("chain", folder), NOBODY))
        await eventually(lambda: link._limits, describe="the limit is known")
        clock.advance(TASK_LIMIT_SEC * 2)
        exited = executor._exited
        assert exited is not None
        await asyncio.wait({exited})
        clock.advance(TASK_LIMIT_SEC)
        with pytest.raises(TaskOverdue):
            await execution

    with_executor(test)


@pytest.mark.parametrize("then", ["a failed write", "its exit"])
def test_the_outcome_of_an_executor_that_has_left_is_not_lost(
    with_executor: Callable[[Test], None], then: str
) -> None:
    async def test(executor: ProcessExecutor, folder: Path) -> None:
        link, clock = link_of(executor), SetLoop()
        execution = asyncio.create_task(executor.execute(a_run("spoiling", folder), NOBODY))
        await begun(folder, "spoiling")
        stop_reading(executor)
        link._loop = clock  # type: ignore[assignment]
        (folder / "spoiling-may-end").touch()
        exited = executor._exited
        assert exited is not None
        await asyncio.wait({exited})
        if then == "a failed write":
            executor.progress()
        else:
            await asyncio.sleep(0)
            clock.advance(LAST_WORDS_SEC)
        assert (await execution).status == "COMPLETED"

    with_executor(test)


def test_a_run_that_stopped_by_itself_is_not_ended_by_force(with_executor: Callable[[Test], None]) -> None:
    async def test(executor: ProcessExecutor, folder: Path) -> None:
        turn = await ExecutorPool([executor], allowance=0).turn()
        execution = asyncio.create_task(turn.execute(a_run("chain", folder), NOBODY))
        await begun(folder, "limited")
        stop_reading(executor)
        turn.cancel("r")
        await arrived(executor, Outcome)
        await turn.give_up("FAILED", "the flow did not stop")
        outcome = await execution
        assert (outcome.status, outcome.error) == ("CANCELLED", None)

    with_executor(test)


def test_an_executor_that_was_ready_in_time_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_executor: Callable[[Test], None]
) -> None:
    async def test(executor: ProcessExecutor, _: Path) -> None:
        await executor.close()

        async def time_is_up(*_: object, timeout_sec: float | None) -> None:
            stop_reading(executor)
            await arrived(executor, Ready)

        monkeypatch.setattr(process_executor, "_first_of", time_is_up)
        await executor.start()
        assert "chain" in executor.ready.flows
        monkeypatch.undo()

    with_executor(test)
