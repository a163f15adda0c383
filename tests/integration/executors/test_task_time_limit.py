"""The limit of a task holds for its tries, and not for the report of what came of them."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker.engine import task_limits
from pyoco_server.worker.engine.task_journal import TaskJournal
from pyoco_server.worker.executors.process_executor import ProcessExecutor
from pyoco_server.worker.ipc.protocol import Run, Setup
from tests.support.clocks import SetLoop
from tests.support.running.flow_runs import FlowUnderTest
from tests.support.waiting import LIMIT_SEC, eventually


class SetTimers:
    """`threading`, for timers that fire when the test says so."""

    def __init__(self) -> None:
        self._running: dict[object, Callable[[], None]] = {}

    def Timer(self, _: float, function: Callable[..., None], arguments: list[object]) -> "_SetTimer":  # noqa: N802
        return _SetTimer(self._running, lambda: function(*arguments))

    def current_thread(self) -> None: ...

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
    monkeypatch.setattr(task_limits, "threading", timers)
    return timers


def test_a_result_in_time_that_is_reported_late_was_in_time(
    timers: SetTimers, monkeypatch: pytest.MonkeyPatch
) -> None:
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


async def test_a_task_in_time_is_not_overdue_while_its_result_is_pickled(tmp_path: Path) -> None:
    flows = tmp_path / "flows"
    flows.mkdir()
    (flows / "chain.py").write_text(FLOWS)
    executor = ProcessExecutor(Setup.from_config(NatsBackendConfig(), flows=str(flows)))
    nobody: Any = SimpleNamespace(finished=lambda _: None, asked=lambda _: None, printed=lambda _: None)
    run = Run(run_id="r", flow_name="chain", params=msgspec.json.encode({"folder": str(tmp_path)}))
    try:
        await executor.start()
        assert executor._link is not None
        executor._link._loop = clock = SetLoop()  # type: ignore[assignment]
        async with asyncio.timeout(LIMIT_SEC):
            execution = asyncio.create_task(executor.execute(run, nobody))
            await eventually((tmp_path / "pickling").exists, describe="the result is being pickled")
            clock.advance(1200)
            (tmp_path / "may-end").touch()
            assert (await execution).status == "COMPLETED"
    finally:
        await executor.abandon()
        await executor.close()
