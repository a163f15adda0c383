"""The tasks of a built flow in order, and the links between them."""

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from pyoco.core.models import Flow
from pyoco.dsl.nodes import DSLNode, SubFlowNode, SwitchNode, TaskNode

from pyoco_server.runs.flow_yaml.flow_check import CheckedFlow
from pyoco_server.runs.flow_yaml.yaml_graph import placeholder_flow

Links = dict[str, list[str]]


def planned_tasks(checked: CheckedFlow) -> Links:
    """The tasks of a flow.yaml in order, each with those directly before it; no user code is imported."""
    flow = placeholder_flow(checked.graph, checked.pipes, checked.tasks)
    before = predecessors(flow)
    return {name: before.get(name, []) for name in in_order(flow)}


def in_order(flow: Flow) -> list[str]:
    """The names of the tasks in topological order, by name where the flow does not define one.

    Of a flow with loops or branches, by where it is written.
    """
    if len(flow.tasks) == 1:
        return [task.name for task in flow.tasks]
    names = sorted(task.name for task in flow.tasks)
    if flow.has_control_flow():
        names = list(dict.fromkeys([*task_names(flow.build_program()), *names]))
    before = predecessors(flow)
    try:
        return list(TopologicalSorter({name: before.get(name, ()) for name in names}).static_order())
    except CycleError:
        # A task that occurs twice in a program; in a graph, the engine reports it when the flow runs.
        return names


def task_names(node: DSLNode) -> Iterator[str]:
    """The tasks of a program, in the order in which it is written; one that occurs twice is there twice."""
    if isinstance(node, TaskNode):
        yield node.task.name
        return
    if isinstance(node, SwitchNode):
        parts = [case.target for case in node.cases]
    else:
        parts = node.steps if isinstance(node, SubFlowNode) else [node.body]
    for part in parts:
        yield from task_names(part)


def predecessors(flow: Flow) -> Links:
    """The direct predecessors of each task that has any.

    A flow with loops and branches is read as a program: a loop counts as one iteration, and all branches of
    a switch lead to what follows it.
    """
    if flow.has_control_flow():
        before: dict[str, dict[str, None]] = {}
        _link(flow.build_program(), [], before)
        return {name: list(earlier) for name, earlier in before.items() if earlier}
    if len(flow.tasks) == 1:
        return {}
    names = {task.name for task in flow.tasks}
    return {
        task.name: sorted(earlier.name for earlier in task.dependencies if earlier.name in names)
        for task in flow.tasks
        if task.dependencies
    }


def _link(node: DSLNode, before: list[str], found: dict[str, dict[str, None]]) -> list[str]:
    """Link the tasks of the node to those before it; return the tasks that it ends with."""
    if isinstance(node, TaskNode):
        name = node.task.name
        # A task that occurs several times is one task, and never its own predecessor.
        found.setdefault(name, {}).update((each, None) for each in before if each != name)
        return [name]
    if isinstance(node, SubFlowNode):
        for step in node.steps:
            before = _link(step, before, found)
        return before
    if isinstance(node, SwitchNode):
        ends = [end for case in node.cases for end in _link(case.target, before, found)]
        return list(dict.fromkeys(ends)) or before
    return _link(node.body, before, found)
