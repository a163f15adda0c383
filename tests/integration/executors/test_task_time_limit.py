"""The limit of a task covers its tries, and not the report of its result."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.worker.engine.journal.task_journal import TaskJournal
from tests.support.clocks import FakeClockLoop
from tests.support.running.executors import new_run, started_executor
from tests.support.running.flow_runs import FlowUnderTest
from tests.support.waiting import LIMIT_SEC, eventually


class SetTimers:
    """Replaces `threading`; its timers fire when the test calls `fire`."""

    def __init__(self) -> None:
        self._running: dict[object, Callable[[], None]] = {}

    def Timer(self, _: float, function: Callable[..., None], arguments: list[object]) -> "_SetTimer":  # noqa: N802
        return _SetTimer(self._running, lambda: function(*arguments))

    def fire(self) -> None:
        for function in list(self._running.values()):
            function()


class _SetTimer:
    daemon = False

    def __init__(self, running: dict[object, Callable[[], None]], function: Callable[[], None]) -> None:
        self._running, self._function = running, function

    def start(self) -> None:
        self._running[self] = self._function

    def cancel(self) -> None:
        self._running.pop(self, None)

    def join(self) -> None: ...


def limited_flow(function: Callable[[], object]) -> Flow:
    limited = Task(func=function, name="limited", timeout_sec=60)
    return Flow("two") >> TaskWrapper(limited) >> TaskWrapper(Task(func=lambda: "done", name="after"))


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> SetTimers:
    timers = SetTimers()
    monkeypatch.setattr(threading, "Timer", timers.Timer)
    return timers


def test_reporting_a_result_does_not_count(timers: SetTimers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The executor may have to wait for a worker that is paused."""
    finished = TaskJournal.finished

    def finished_late(self: TaskJournal, *entry: object) -> None:
        timers.fire()
        finished(self, *entry)  # type: ignore[arg-type]

    monkeypatch.setattr(TaskJournal, "finished", finished_late)
    flow = FlowUnderTest(limited_flow(lambda: "in time"))
    assert flow.execute().status == "COMPLETED"
    assert flow.stuck == []
    assert [entry.task for entry in flow.written] == ["limited", "after"]


def test_a_task_past_its_limit_is_reported(timers: SetTimers) -> None:
    flow = FlowUnderTest(limited_flow(timers.fire))
    assert flow.prepare().execute() is None
    assert [(outcome.status, outcome.reason) for outcome in flow.stuck] == [("FAILED", "timeout")]


FLOWS = """
import time
from pathlib import Path
from pyoco import Flow, task

class Large:
    # As a structure whose pickling takes long; for the worker it makes no difference whether the GIL is held.
    def __init__(self, folder):
        self.folder = Path(folder)

    def __reduce__(self):
        (self.folder / "pickling").touch()
        while not (self.folder / "may-end").exists():
            time.sleep(0.01)
        return Large, (str(self.folder),)

@task
def limited(ctx, folder):
    return Large(folder)

@task
def after(ctx):
    return None

limited.task.timeout_sec = 600.0
chain = Flow(name="chain")
chain >> limited >> after
"""


async def test_pickling_a_result_does_not_count(tmp_path: Path) -> None:
    flows = tmp_path / "flows"
    flows.mkdir()
    (flows / "chain.py").write_text(FLOWS)
    async with started_executor(flows) as executor, asyncio.timeout(LIMIT_SEC):
        clock = FakeClockLoop()
        executor.started._loop = executor.started._time_limits._loop = clock  # type: ignore[assignment]
        execution = executor.begin(new_run("chain", folder=str(tmp_path)))
        await eventually((tmp_path / "pickling").exists, describe="the result is being pickled")
        clock.advance(1200)
        (tmp_path / "may-end").touch()
        assert (await execution).status == "COMPLETED"


@pytest.mark.parametrize("limit_sec", ["math.inf", "1e12"])
async def test_a_limit_that_no_clock_reaches_is_none(tmp_path: Path, limit_sec: str) -> None:
    """Some write `math.inf` where there is no limit; no message of the executor may contain it."""
    tmp_path.joinpath("unlimited.py").write_text(
        "import math\nfrom pyoco import Flow, task\n"
        "@task\ndef work():\n    return 1\n"
        f"work.task.timeout_sec = {limit_sec}\nflow = Flow('unlimited') >> work\n"
    )
    async with started_executor(tmp_path) as executor:
        outcome = await executor.execute(new_run("unlimited"))
    assert (outcome.status, outcome.error) == ("COMPLETED", None)
