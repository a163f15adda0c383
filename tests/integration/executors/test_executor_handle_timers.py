"""The timers of an executor's handle: they end with the process, and continue as long as they are needed."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.worker.executors import executor_handle
from pyoco_server.worker.executors.executor import ExecutorCrashed
from pyoco_server.worker.ipc import prefetch_channel
from pyoco_server.worker.ipc.protocol import LimitStarted, Printed, Run, frame
from tests.support.clocks import FakeClockLoop
from tests.support.running.executors import (
    NO_EVENTS,
    ExecutorUnderTest,
    fake_child,
    new_run,
    started_executor,
)
from tests.support.waiting import LIMIT_SEC, eventually

LIMIT = LimitStarted(key="k", task="t", limit_sec=60, isolated=False, started_at=0.0)
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


async def test_the_id_of_an_exited_process_is_not_used_again(
    executor: ExecutorUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by the timer of a task limit, nor when another process is started."""
    child, clock = executor.started, FakeClockLoop()
    monkeypatch.setattr(child, "_loop", clock)
    monkeypatch.setattr(child._time_limits, "_loop", clock)
    child.data_received(frame(LIMIT))
    execution = executor.begin(new_run("vanishing"))
    await asyncio.wait({child.exited})
    child.connection_lost(None)
    with pytest.raises(ExecutorCrashed, match="exited with code 7"):
        await execution

    killed: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda group, _: killed.append(group))
    clock.advance(3600)
    await executor.end()
    assert killed == []
    assert child._time_limits.exceeded is None


async def test_an_executor_that_is_still_sending_is_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not send all of a large result to a paused worker."""
    clock = FakeClockLoop()
    result = frame(Printed(lines=[LogLine(ts=0.0, stream="stdout", text="x" * 1000)]))
    killed: list[float] = []
    with fake_child() as (child, theirs):
        monkeypatch.setattr(child._time_limits, "_loop", clock)
        monkeypatch.setattr(child, "kill_group", lambda: killed.append(clock.time()))
        child.begin(new_run("noop"), NO_EVENTS)
        theirs.sendall(frame(LIMIT))
        child.read_waiting()
        theirs.sendall(result[:500])
        clock.advance(61)
        assert killed == []
        theirs.sendall(result[500:])
        clock.advance(1)
        assert killed == []
        clock.advance(1)
        assert killed == [63]


async def test_a_run_that_is_queued_again_while_it_is_recalled_is_recalled_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The executor reads a run just after the worker has taken the first one back."""
    clock, taken = FakeClockLoop(), list[Run]()
    real = prefetch_channel.receive

    def receive(reading: Any) -> Run | None:
        found = real(reading)
        if not taken and (run := real(reading)) is not None:
            taken.append(run)
        return found

    with fake_child() as (child, _):
        monkeypatch.setattr(child, "_loop", clock)
        monkeypatch.setattr(executor_handle, "time", SimpleNamespace(monotonic=clock.time))
        first = child.begin(new_run("noop", "first"), NO_EVENTS)
        second = child.enqueue(new_run("noop", "second"), NO_EVENTS)
        monkeypatch.setattr(prefetch_channel, "receive", receive)
        clock.advance(executor_handle._RECALL_AFTER_SEC)
        assert [run.run_id for run in taken] == ["second"]
        assert child.current is second
        assert not first.outcome.done()
        clock.advance(executor_handle._RECALL_AFTER_SEC)
        outcome = first.outcome.result()
        assert outcome is not None
        assert outcome.not_started
        assert second is not None
        assert not second.outcome.done()


@pytest.mark.usefixtures("new_interpreters")
async def test_a_task_that_has_closed_the_link_and_holds_the_gil_is_killed(tmp_path: Path) -> None:
    (tmp_path / "closing.py").write_text(CLOSING_FLOW)
    started = tmp_path / "started"
    async with started_executor(tmp_path) as executor, asyncio.timeout(LIMIT_SEC):
        with pytest.raises(ExecutorCrashed, match="SIGKILL"):
            await executor.execute(new_run("closing-all", started=str(started)))
        await eventually(started.exists, describe="the task has started")
