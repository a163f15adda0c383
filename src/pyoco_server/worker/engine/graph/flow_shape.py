"""Digests of a flow's structure, which say whether a journalled result is still valid.

The code of a task may change between two attempts, for example by a new wheel, and earlier results stay
valid. They do not where the flow itself has changed. So each journal entry has a digest of its task and of
everything upstream: names, links, and the options that decide what a task is given and when. Retries, time
limits and code are not part of it.

A task may change a literal input in place, and the Flow is used for later runs too. So the digests are
computed once, before the first task, and kept with the Flow: another process must compute the same.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from pyoco.core.models import Flow, Task
from pyoco.dsl.expressions import Expression
from pyoco.dsl.nodes import DSLNode, ForEachNode, RepeatNode, SubFlowNode, SwitchNode, TaskNode, UntilNode

from pyoco_server.runs.flow_yaml.flow_order import task_names
from pyoco_server.worker.engine.graph.rerun_reuse import downstream

_DIGEST_BYTES = 8
_LITERALS = (str, int, float, bool, bytes)
# A Flow cannot be the key of a dictionary.
_KEPT_AS = "_pyoco_server_shape"


class FlowShape:
    def __init__(self, flow: Flow, order: Sequence[str]) -> None:
        """`order` is the names of the tasks in topological order."""
        self._flow = flow
        kept = vars(flow).get(_KEPT_AS)
        # The first of two concurrent runs wins: its tasks may already have changed an input.
        self._digests: dict[str, bytes] = kept or vars(flow).setdefault(_KEPT_AS, _digests(flow, order))

    def of(self, task: str) -> bytes:
        """The digest of the task and everything upstream; empty if the flow has no such task."""
        return self._digests.get(task, b"")

    def downstream(self, task: str) -> set[str] | None:
        """The tasks that depend on it; None means all later ones, as in a flow with loops or branches."""
        return None if self._flow.has_control_flow() else downstream(self._flow, task) - {task}


def _digests(flow: Flow, order: Sequence[str]) -> dict[str, bytes]:
    return _of_program(flow) if flow.has_control_flow() else _of_graph(flow, order)


def _of_graph(flow: Flow, order: Sequence[str]) -> dict[str, bytes]:
    tasks = {task.name: task for task in flow.tasks}
    digests: dict[str, bytes] = {}
    for name in order:
        before = sorted(digests.get(earlier.name, b"") for earlier in tasks[name].dependencies)
        digests[name] = _digest(b"".join(before), _options(tasks[name]))
    return digests


def _of_program(flow: Flow) -> dict[str, bytes]:
    """Loops and branches depend on everything before them, and are valid or not as a whole."""
    digests: dict[str, bytes] = {}
    before = b""
    for step in flow.build_program().steps:
        before = _digest(before, _structure(step))
        # A task that occurs several times gets its last place: everything before that must be unchanged.
        digests |= dict.fromkeys(task_names(step), before)
    return digests


def _digest(before: bytes, text: str) -> bytes:
    return blake2b(before + text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()


def _options(task: Task) -> str:
    text = f"{task.name!r} {task.fail_policy} {task.trigger_policy}"
    return f"{text} {_text([task.inputs, task.outputs])}" if task.inputs or task.outputs else text


def _structure(node: DSLNode) -> str:
    if isinstance(node, TaskNode):
        return _options(node.task)
    if isinstance(node, SubFlowNode):
        return f"({' '.join(map(_structure, node.steps))})"
    if isinstance(node, SwitchNode):
        cases = " ".join(f"{_text(case.value)} {_structure(case.target)}" for case in node.cases)
        return f"switch {_text(node.expression)} {cases}"
    return f"{_loop(node)} {_structure(node.body)}"


def _loop(node: RepeatNode | ForEachNode | UntilNode) -> str:
    if isinstance(node, RepeatNode):
        return f"repeat {_text(node.count)}"
    if isinstance(node, ForEachNode):
        return f"foreach {_text([node.source, node.alias, node.index_alias])}"
    return f"until {_text([node.condition, node.max_iter])}"


def _text(value: Any) -> str:
    """The same in every process: an object without a literal form is represented by its type."""
    try:
        return _literal(value)
    except RecursionError:
        # It contains itself.
        return _type_name(value)


def _literal(value: Any) -> str:
    if isinstance(value, Expression):
        return f"${value.source}"
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{_literal(key)}: {_literal(each)}' for key, each in value.items()))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, set | frozenset):
        # Sorted: the order of a set of strings differs between processes.
        return f"set({', '.join(sorted(map(_literal, value)))})"
    return repr(value) if value is None or type(value) in _LITERALS else _type_name(value)


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
