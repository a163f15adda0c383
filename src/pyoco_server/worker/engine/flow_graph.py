"""The order of a flow's tasks, the links between them, and which journal entries a rerun may reuse."""

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from pyoco.core.models import Flow, Task
from pyoco.dsl.nodes import DSLNode, SubFlowNode, SwitchNode, TaskNode

from pyoco_server.records.models import JournalEntry

Links = dict[str, list[str]]


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


def downstream(flow: Flow, name: str) -> set[str]:
    """The task of this name and all tasks that depend on it."""
    found: set[str] = set()
    pending: list[Task] = [task for task in flow.tasks if task.name == name]
    while pending:
        task = pending.pop()
        if task.name not in found:
            found.add(task.name)
            pending.extend(task.dependents)
    return found


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


def result_task(flow: Flow) -> str | None:
    """The task that has the option `result`."""
    return next((task.name for task in flow.tasks if getattr(task, "result", False)), None)


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


def reusable(flow: Flow, journal: Sequence[JournalEntry], rerun_task: str | None) -> Sequence[JournalEntry]:
    """The entries that are valid for this execution; entries of this run itself always are."""
    if not journal:
        return journal
    # A rerun executes again what failed in the original run.
    journal = [entry for entry in journal if entry.attempt or entry.error is None]
    if rerun_task is None:
        return journal
    if flow.has_control_flow():
        return _before_first(journal, rerun_task)
    again = downstream(flow, rerun_task)
    return [entry for entry in journal if entry.attempt or entry.task not in again]


def _before_first(journal: Sequence[JournalEntry], task: str) -> Sequence[JournalEntry]:
    """Loops and branches depend on everything before them: nothing after the task's first start is valid."""
    copied = [entry for entry in journal if not entry.attempt]
    first = next((index for index, entry in enumerate(copied) if entry.task == task), len(copied))
    return [*copied[:first], *(entry for entry in journal if entry.attempt)]
