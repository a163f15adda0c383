"""The options of tasks in Python flows: set by a decorator, and held by the engine."""

from typing import Any

import pytest
from pyoco import Flow, task
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper, switch

from pyoco_server import task_options
from pyoco_server.worker.flows.task_options import invalid_option
from tests.support.running.flow_runs import FlowUnderTest


class Flaky:
    """A task's function that fails a number of times."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        if self.calls <= self.failures:
            raise RuntimeError("the network is down")
        return self.calls


def test_the_decorator_sets_what_is_given() -> None:
    @task_options(retries=2, timeout_sec=30, fail_policy="isolate", trigger_policy="ANY")
    @task
    def fetch() -> int:
        return 1

    found = fetch.task
    assert (found.retries, found.timeout_sec, found.fail_policy) == (2, 30, "isolate")
    assert found.trigger_policy == "ANY"
    task_options(retries=0)(fetch)
    assert (found.retries, found.timeout_sec) == (0, 30)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"retries": "3"}, r"task_options\(retries='3'\): retries must be a whole number from 0 to 1000"),
        ({"timeout_sec": -1}, "timeout_sec must be a number of seconds above 0"),
        ({"fail_policy": "ignore"}, "fail_policy must be 'stop' or 'isolate'"),
        ({"trigger_policy": "any"}, "trigger_policy must be 'ALL' or 'ANY'"),
    ],
)
def test_an_invalid_value_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        task_options(**options)


def test_below_task_it_is_refused() -> None:
    with pytest.raises(TypeError, match="above @task"):
        task_options(retries=1)(lambda: 1)


def test_retries_hold_in_a_loop() -> None:
    function = Flaky(2)
    flow = Flow("looping") >> TaskWrapper(Task(func=function, name="fetch", retries=2))[2]
    assert FlowUnderTest(flow).execute().status == "COMPLETED"
    assert function.calls == 4


def test_isolate_does_not_hold_beside_branches_and_the_log_says_so() -> None:
    optional = TaskWrapper(Task(func=Flaky(1), name="optional", fail_policy="isolate"))
    flow = FlowUnderTest(Flow("branching") >> switch("$ctx.params.way")["a" >> optional])
    assert flow.execute({"way": "a"}).status == "FAILED"
    [line] = flow.lines
    assert line.task == "optional"
    assert "'isolate' has no effect in a flow with loops or branches" in line.text


@pytest.mark.parametrize(("option", "value"), [("retries", "3"), ("retries", None), ("timeout_sec", "30 s")])
def test_an_unusable_value_is_named(option: str, value: object) -> None:
    flow = Flow("wrong") >> TaskWrapper(Task(func=Flaky(0), name="fetch", **{option: value}))
    assert f"task 'fetch': {option} must be" in (invalid_option(flow) or "")
