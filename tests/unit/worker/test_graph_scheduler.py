"""The graph scheduler follows the rules of pyoco's engine."""

import threading
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyoco.core.engine import Engine
from pyoco.core.models import Flow, RunContext, RunStatus, Task, TaskState

from pyoco_server.worker.engine.graph.graph_scheduler import GraphScheduler
from pyoco_server.worker.engine.pyoco_adapter import _NoTrace
from tests.support.running.flow_runs import FlowUnderTest


@dataclass(frozen=True)
class Node:
    before: frozenset[int]
    fails: bool
    policy: str
    trigger: str


@st.composite
def graphs(draw: st.DrawFn) -> list[Node]:
    nodes: list[Node] = []
    for number in range(draw(st.integers(2, 7))):
        before = draw(st.frozensets(st.integers(0, number - 1), max_size=3)) if number else frozenset()
        policy = draw(st.sampled_from(["stop", "isolate", "isolate"]))
        nodes.append(Node(before, draw(st.booleans()), policy, draw(st.sampled_from(["ALL", "ANY"]))))
    return nodes


def flow_of(nodes: list[Node]) -> Flow:
    def function(node: Node) -> Any:
        def act() -> None:
            if node.fails:
                raise ValueError("as it should")

        return act

    tasks = [
        Task(func=function(node), name=f"t{number}", fail_policy=node.policy, trigger_policy=node.trigger)
        for number, node in enumerate(nodes)
    ]
    for task, node in zip(tasks, nodes, strict=True):
        for number in node.before:
            task.dependencies.add(tasks[number])
            tasks[number].dependents.add(task)
    flow = Flow("graph")
    for task in tasks:
        flow.add_task(task)
    return flow


def by_the_engine(flow: Flow) -> tuple[str, dict[str, str]]:
    run = RunContext()
    try:
        Engine(trace_backend=_NoTrace()).run(flow, {}, run)
    except (ValueError, RuntimeError) as error:
        return type(error).__name__, _states(run)
    return run.status.value, _states(run)


def by_us(flow: Flow) -> tuple[str, dict[str, str]]:
    outcome = FlowUnderTest(flow).execute()
    return outcome.exc_type or outcome.status, {name: str(state) for name, state in outcome.tasks.items()}


def _states(run: RunContext) -> dict[str, str]:
    return {name: state.value for name, state in run.tasks.items()}


def is_undefined(nodes: list[Node], states: dict[str, str]) -> bool:
    """Whether something depends on a task that failed without being started.

    The engine checks such tasks in the order of a set, and reports a deadlock for some orders.
    """

    def was_started(number: int) -> bool:
        node = nodes[number]
        succeeded = [states[f"t{each}"] == "SUCCEEDED" for each in node.before]
        return not succeeded or (any(succeeded) if node.trigger == "ANY" else all(succeeded))

    skipped = {
        number for number in range(len(nodes)) if states[f"t{number}"] == "FAILED" and not was_started(number)
    }
    return any(node.before & skipped for node in nodes)


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_a_graph_ends_as_it_does_with_the_engine(nodes: list[Node]) -> None:
    how, states = by_us(flow_of(nodes))
    assume(not is_undefined(nodes, states))
    expected, expected_states = by_the_engine(flow_of(nodes))
    assert how == expected
    if how != "ValueError":
        # Which of the other tasks have started when a failure stops the flow is undefined.
        assert states == expected_states


def test_dependents_of_a_skipped_task_are_skipped_if_one_of_them_is_isolated() -> None:
    isolated = Node(frozenset({1}), False, "isolate", "ALL")
    nodes = [Node(frozenset(), True, "isolate", "ALL"), Node(frozenset({0}), False, "stop", "ALL"), isolated]
    assert by_us(flow_of(nodes)) == ("COMPLETED", dict.fromkeys(("t0", "t1", "t2"), "FAILED"))


def test_dependents_of_a_skipped_task_deadlock_as_with_the_engine() -> None:
    following = Node(frozenset({1}), False, "stop", "ALL")
    nodes = [Node(frozenset(), True, "isolate", "ALL"), Node(frozenset({0}), False, "stop", "ALL"), following]
    assert by_us(flow_of(nodes))[0] == by_the_engine(flow_of(nodes))[0] == "RuntimeError"


def test_a_cycle_is_an_error() -> None:
    flow = flow_of([Node(frozenset(), False, "stop", "ALL")] * 3)
    first, second, _ = sorted(flow.tasks, key=lambda task: str(task.name))
    for task, other in ((first, second), (second, first)):
        task.dependencies.add(other)
        task.dependents.add(other)
    with pytest.raises(RuntimeError, match="Deadlock"):
        graph_of(flow).run()


def graph_of(flow: Flow, run: RunContext | None = None) -> GraphScheduler:
    return GraphScheduler(
        flow, run or RunContext(), execute=lambda task: task.func(), discard_waits=lambda _: None
    )


def test_a_cancel_ends_pending_tasks_and_waits_for_running_ones() -> None:
    run = RunContext()
    ended = threading.Event()

    def cancelling() -> None:
        run.status = RunStatus.CANCELLING
        ended.set()

    flow = flow_of([Node(frozenset(), False, "stop", "ALL"), Node(frozenset({0}), False, "stop", "ALL")])
    first = next(task for task in flow.tasks if task.name == "t0")
    first.func = cancelling
    graph_of(flow, run).run()
    assert ended.is_set()
    assert run.status is RunStatus.CANCELLED
    assert run.tasks["t1"] is TaskState.CANCELLED


def test_checks_grow_linearly_with_the_number_of_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine checks every task whenever one has ended."""
    checks = 0
    readiness = GraphScheduler._readiness

    def counted(self: GraphScheduler, task: Task) -> Any:
        nonlocal checks
        checks += 1
        return readiness(self, task)

    monkeypatch.setattr(GraphScheduler, "_readiness", counted)
    wide = [Node(frozenset(), False, "stop", "ALL")] + [Node(frozenset({0}), False, "stop", "ALL")] * 999
    graph_of(flow_of(wide)).run()
    assert checks < 3000
