"""Isolated failures: the changes of the failed task stay, and errors name the task that raised them."""

import threading
from typing import Any

import msgspec
import pytest
from pyoco import Flow
from pyoco.core.context import Context
from pyoco.core.models import Task

from tests.support.running.flow_runs import FlowUnderTest, output


class Degrading:
    """A flow with an optional task that fails, and tasks that read what it changed."""

    def __init__(self) -> None:
        self.executed: list[str] = []

    def optional(self, ctx: Context) -> None:
        self.executed.append("optional")
        ctx.scratch["mode"] = "degraded"
        ctx.params["tried"].append("cache")
        raise RuntimeError("the cache is away")

    def good(self) -> int:
        self.executed.append("good")
        return 1

    def report(self, ctx: Context, good: int) -> list[Any]:
        self.executed.append("report")
        return [ctx.scratch["mode"], list(ctx.params["tried"])]

    def flow(self, report: Any = None) -> Flow:
        optional = Task(func=self.optional, name="optional", fail_policy="isolate")
        good = Task(func=self.good, name="good")
        last = Task(func=report or self.report, name="report", dependencies={good})
        good.dependents.add(last)
        flow = Flow("degrading")
        for task in (optional, good, last):
            flow.add_task(task)
        return flow


def test_changes_of_a_failed_task_are_restored() -> None:
    undisturbed = FlowUnderTest(Degrading().flow())
    outcome = undisturbed.execute({"tried": []})
    assert (outcome.status, output(outcome, "report")) == ("COMPLETED", ["degraded", ["cache"]])
    resumed = Degrading()
    journal = [entry for entry in undisturbed.written if entry.task != "report"]
    outcome = FlowUnderTest(resumed.flow()).execute({"tried": []}, journal, attempt=2)
    assert (outcome.status, outcome.error) == ("COMPLETED", None)
    assert output(outcome, "report") == ["degraded", ["cache"]]
    assert resumed.executed == ["report"]
    assert outcome.tasks["optional"] == "FAILED"


def test_a_failed_task_with_unstorable_changes_is_executed_again() -> None:
    def locks(ctx: Context) -> None:
        ctx.scratch["mode"] = threading.Lock()
        raise RuntimeError("no luck")

    degrading = Degrading()
    degrading.optional = locks  # type: ignore[method-assign]
    run = FlowUnderTest(degrading.flow(report=lambda: 1))
    outcome = run.execute({"tried": []})
    assert sorted(entry.task for entry in run.written if entry.has_value) == ["good", "report"]
    assert "cannot pickle" in msgspec.json.decode(outcome.task_records["optional"])["not_journalled"]


@pytest.mark.parametrize("resumed", [False, True])
def test_the_error_of_a_run_names_the_task_that_raised_it(resumed: bool) -> None:
    def report(ctx: Context, good: int) -> None:
        raise KeyError("other")

    degrading = Degrading()
    run = FlowUnderTest(degrading.flow(report))
    outcome = run.execute({"tried": []})
    if resumed:
        outcome = FlowUnderTest(degrading.flow(report)).execute({"tried": []}, run.written, attempt=2)
    assert (outcome.status, outcome.error) == ("FAILED", "task report: KeyError: 'other'")
    assert outcome.tasks == {"optional": "FAILED", "good": "SUCCEEDED", "report": "FAILED"}


def test_an_unresolvable_input_is_an_error_of_its_task() -> None:
    flow = Degrading().flow()
    next(task for task in flow.tasks if task.name == "report").inputs["good"] = "$ctx.params.missing"
    outcome = FlowUnderTest(flow).execute({"tried": []})
    assert outcome.error is not None
    assert outcome.error.startswith("task report: KeyError:")


def test_a_system_exit_names_its_task() -> None:
    def leaves(good: int) -> None:
        raise SystemExit(3)

    outcome = FlowUnderTest(Degrading().flow(leaves)).execute({"tried": []})
    assert outcome.error == "task report: SystemExit: 3"


def test_an_error_of_the_engine_names_no_task() -> None:
    flow = Degrading().flow()
    report = next(task for task in flow.tasks if task.name == "report")
    # It waits for a task that the flow does not have.
    report.dependencies.add(Task(func=lambda: None, name="elsewhere"))
    outcome = FlowUnderTest(flow).execute({"tried": []})
    assert outcome.error == "RuntimeError: Deadlock or cycle detected in workflow"
