"""Our scheduler of a graph of tasks keeps the engine's rules."""

import threading
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyoco.core.engine import Engine
from pyoco.core.models import Flow, RunContext, RunStatus, Task, TaskState

from pyoco_server.worker.engine.server_engine import ServerEngine, _Quiet
from pyoco_server.worker.engine.task_graph import TaskGraph


@dataclass(frozen=True)
class Node:
    """A task of a graph: whom it follows, and what it does."""

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
        Engine(trace_backend=_Quiet()).run(flow, {}, run)
    except (ValueError, RuntimeError) as error:
        return type(error).__name__, _states(run)
    return run.status.value, _states(run)


def by_us(flow: Flow) -> tuple[str, dict[str, str]]:
    run = RunContext()
    try:
        ServerEngine().run(flow, {}, run, lambda _: None, lambda _: None)
    except (ValueError, RuntimeError) as error:
        return type(error).__name__, _states(run)
    return run.status.value, _states(run)


def _states(run: RunContext) -> dict[str, str]:
    return {name: state.value for name, state in run.tasks.items()}


def is_chance(nodes: list[Node], states: dict[str, str]) -> bool:
    """Whether something follows a task that failed without being begun.

    The engine looks at such tasks in the order of a set, and calls it a deadlock when it has come to them in
    the wrong one.
    """

    def was_begun(number: int) -> bool:
        node = nodes[number]
        succeeded = [states[f"t{each}"] == "SUCCEEDED" for each in node.before]
        return not succeeded or (any(succeeded) if node.trigger == "ANY" else all(succeeded))

    skipped = {
        number for number in range(len(nodes)) if states[f"t{number}"] == "FAILED" and not was_begun(number)
    }
    return any(node.before & skipped for node in nodes)


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_a_graph_ends_as_it_does_with_the_engine(nodes: list[Node]) -> None:
    how, states = by_us(flow_of(nodes))
    assume(not is_chance(nodes, states))
    expected, expected_states = by_the_engine(flow_of(nodes))
    assert how == expected
    if how != "ValueError":
        # Where a failure stops the flow, it is chance which of the other tasks have begun.
        assert states == expected_states


def test_what_follows_a_skipped_task_is_skipped_with_it_if_one_of_them_is_isolated() -> None:
    isolated = Node(frozenset({1}), False, "isolate", "ALL")
    nodes = [Node(frozenset(), True, "isolate", "ALL"), Node(frozenset({0}), False, "stop", "ALL"), isolated]
    assert by_us(flow_of(nodes)) == ("COMPLETED", dict.fromkeys(("t0", "t1", "t2"), "FAILED"))


def test_what_follows_a_skipped_task_can_never_run_as_with_the_engine() -> None:
    following = Node(frozenset({1}), False, "stop", "ALL")
    nodes = [Node(frozenset(), True, "isolate", "ALL"), Node(frozenset({0}), False, "stop", "ALL"), following]
    assert by_us(flow_of(nodes))[0] == by_the_engine(flow_of(nodes))[0] == "RuntimeError"


def test_a_circle_is_an_error_and_no_silent_end() -> None:
    flow = flow_of([Node(frozenset(), False, "stop", "ALL")] * 3)
    first, second, _ = sorted(flow.tasks, key=lambda task: str(task.name))
    for task, other in ((first, second), (second, first)):
        task.dependencies.add(other)
        task.dependents.add(other)
    with pytest.raises(RuntimeError, match="Deadlock"):
        graph_of(flow).run()


def graph_of(flow: Flow, run: RunContext | None = None) -> TaskGraph:
    return TaskGraph(flow, run or RunContext(), execute=lambda task: task.func(), give_up=lambda _: None)


def test_a_cancel_ends_what_has_not_begun_and_waits_for_what_has() -> None:
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


def test_a_thousand_tasks_are_not_looked_at_a_million_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine looks at every task whenever one has ended."""
    looks = 0
    turn = TaskGraph._turn

    def counted(self: TaskGraph, task: Task) -> Any:
        nonlocal looks
        looks += 1
        return turn(self, task)

    monkeypatch.setattr(TaskGraph, "_turn", counted)
    wide = [Node(frozenset(), False, "stop", "ALL")] + [Node(frozenset({0}), False, "stop", "ALL")] * 999
    graph_of(flow_of(wide)).run()
    assert looks < 3000
