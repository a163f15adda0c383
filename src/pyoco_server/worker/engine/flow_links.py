"""What comes before each task of a flow: the lines of its graph, for whoever draws it.

A flow without loops says it itself. One with loops and branches is read as a program: a loop leads on once,
as if it had one turn, and all branches of a switch lead to what follows it.
"""

from pyoco.core.models import Flow
from pyoco.dsl.nodes import DSLNode, SubFlowNode, SwitchNode, TaskNode

Links = dict[str, list[str]]


def links_of(flow: Flow) -> Links:
    """The names of the tasks right before each task that has any."""
    if flow.has_control_flow():
        before: dict[str, dict[str, None]] = {}
        _follow(flow.build_program(), [], before)
        return {name: list(earlier) for name, earlier in before.items() if earlier}
    if len(flow.tasks) == 1:
        return {}
    names = {task.name for task in flow.tasks}
    return {
        task.name: sorted(earlier.name for earlier in task.dependencies if earlier.name in names)
        for task in flow.tasks
        if task.dependencies
    }


def _follow(node: DSLNode, before: list[str], found: dict[str, dict[str, None]]) -> list[str]:
    """Link the tasks of the node to those before it; the tasks that it ends with."""
    if isinstance(node, TaskNode):
        name = node.task.name
        # A task that the flow comes to several times is one, and never before itself.
        found.setdefault(name, {}).update((each, None) for each in before if each != name)
        return [name]
    if isinstance(node, SubFlowNode):
        for step in node.steps:
            before = _follow(step, before, found)
        return before
    if isinstance(node, SwitchNode):
        ends = [end for case in node.cases for end in _follow(case.target, before, found)]
        return list(dict.fromkeys(ends)) or before
    return _follow(node.body, before, found)
