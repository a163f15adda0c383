"""The limit of a task holds for its tries, and not for the report of what came of them."""

from collections.abc import Callable

import pytest
from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.worker import task_limits
from pyoco_server.worker.task_journal import TaskJournal

from .support.flow_runs import FlowUnderTest


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
