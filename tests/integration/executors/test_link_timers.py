"""The timers of a worker's link end with what they are about, and go on as long as it lasts."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.models import LogLine
from pyoco_server.worker.executors import process_link
from pyoco_server.worker.executors.executor import ExecutorCrashed
from pyoco_server.worker.executors.process_executor import ProcessExecutor
from pyoco_server.worker.executors.process_link import ProcessLink
from pyoco_server.worker.ipc import prefetch_channel as ahead_channel
from pyoco_server.worker.ipc.prefetch_channel import AheadChannel
from pyoco_server.worker.ipc.protocol import Limited, Printed, Run, Setup, frame
from tests.support.clocks import SetLoop
from tests.support.places import FLOWS
from tests.support.waiting import LIMIT_SEC, eventually

NOBODY: Any = SimpleNamespace(finished=lambda _: None, asked=lambda _: None, printed=lambda _: None)
CLOSING_FLOW = """
import ctypes, os, sys
from pathlib import Path
from pyoco import Flow, task

@task
def close_all_and_hold_the_gil(started):
    # As a program does that becomes a daemon: also the executor's end of the link.
    Path(started).touch()
    sleep = ctypes.PyDLL(None).sleep
    os.closerange(3, 256)
    sleep(3600)

closing = Flow(name="closing-all")
closing >> close_all_and_hold_the_gil
"""


@pytest.fixture
async def executor() -> AsyncIterator[ProcessExecutor]:
    executor = ProcessExecutor(Setup.from_config(NatsBackendConfig(), flows=str(FLOWS)))
    await executor.start()
    try:
        yield executor
    finally:
        await executor.abandon()
        await executor.close()


def a_run(run_id: str, flow: str = "noop", **params: Any) -> Run:
    return Run(run_id=run_id, flow_name=flow, params=msgspec.json.encode(params))


async def test_the_id_of_a_process_that_has_ended_is_not_used_again(
    executor: ProcessExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by the timer of a task with a limit, nor when the next process takes its place."""
    assert executor._link is not None
    link, clock = executor._link, SetLoop()
    monkeypatch.setattr(link, "_loop", clock)
    limited = Limited(key="k", task="t", limit_sec=60, isolated=False, started_at=0.0)
    link.data_received(frame(limited))
    execution = asyncio.create_task(executor.execute(a_run("r", "vanishing"), NOBODY))
    assert executor._exited is not None
    await asyncio.wait({executor._exited})
    link.connection_lost(None)
    with pytest.raises(ExecutorCrashed, match="exited with code 7"):
        await execution

    killed: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda group, _: killed.append(group))
    clock.advance(3600)
    await executor.abandon()
    await executor.close()
    assert killed == []
    assert link.overdue is None


async def test_an_executor_that_is_still_reporting_is_not_deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not send all of a large result to a worker that was paused."""
    clock, channel = SetLoop(), AheadChannel()
    link = ProcessLink(channel)
    monkeypatch.setattr(link, "_loop", clock)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    link.connection_made(SimpleNamespace(get_extra_info=lambda _: ours))  # type: ignore[arg-type]
    killed: list[float] = []
    link.on_overdue = lambda: killed.append(clock.time())
    link.begin(a_run("r"), NOBODY)
    result = frame(Printed(lines=[LogLine(ts=0.0, stream="stdout", text="x" * 1000)]))
    try:
        theirs.sendall(frame(Limited(key="k", task="t", limit_sec=60, isolated=False, started_at=0.0)))
        link.read_waiting()
        theirs.sendall(result[:500])
        clock.advance(61)
        assert killed == []
        theirs.sendall(result[500:])
        clock.advance(1)
        assert killed == []
        clock.advance(1)
        assert killed == [63]
    finally:
        ours.close()
        theirs.close()
        channel.close()


async def test_a_run_that_comes_to_wait_behind_another_while_it_is_recalled_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SetLoop()
    channel = AheadChannel()
    link = ProcessLink(channel)
    monkeypatch.setattr(link, "_loop", clock)
    monkeypatch.setattr(process_link, "time", SimpleNamespace(monotonic=clock.time))
    front, follower = link.begin(a_run("front"), NOBODY), link.line_up(a_run("follower"), NOBODY)
    taken: list[Run] = []

    def receive(reading: Any) -> Run | None:
        """The executor takes a run just after the worker has taken the first one back."""
        found = real(reading)
        if not taken and (run := real(reading)) is not None:
            taken.append(run)
        return found

    real = ahead_channel.receive
    monkeypatch.setattr(ahead_channel, "receive", receive)
    try:
        clock.advance(process_link._PATIENCE_SEC)
        assert [run.run_id for run in taken] == ["follower"]
        assert link.current is not None
        assert link.current.run_id == "follower"
        assert not front.done()
        clock.advance(process_link._PATIENCE_SEC)
        outcome = front.result()
        assert outcome is not None
        assert outcome.not_begun
        assert follower is not None
        assert not follower.done()
    finally:
        channel.close()


async def test_a_task_that_has_closed_the_link_and_holds_the_gil_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closing.py").write_text(CLOSING_FLOW)
    executor = ProcessExecutor(Setup.from_config(NatsBackendConfig(), flows=str(tmp_path)))
    started = tmp_path / "started"
    try:
        async with asyncio.timeout(LIMIT_SEC):
            with pytest.raises(ExecutorCrashed, match="SIGKILL"):
                await executor.execute(a_run("r", "closing-all", started=str(started)), NOBODY)
        await eventually(started.exists, describe="the task has begun")
    finally:
        await executor.abandon()
        await executor.close()
