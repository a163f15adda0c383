"""Checks a flow.yaml when it is submitted, so that no run fails later because of a typo.

Which modules `callable:` may name is decided by the worker.
"""

from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from pyoco_server.runs.flow_yaml.graph_scan import GraphText
from pyoco_server.runs.flow_yaml.yaml_graph import Reached, check_graph
from pyoco_server.runs.flow_yaml.yaml_problems import ProblemList
from pyoco_server.runs.flow_yaml.yaml_tasks import DeclaredTasks, InputCheck, TaskDeclaration
from pyoco_server.runs.flow_yaml.yaml_tree import Mapping, Node, Scalar, read_tree, refusal
from pyoco_server.runs.flow_yaml.yaml_values import Reader, described, may_hold_keys

_SECTIONS: Final = ("version", "flow", "tasks", "pipes", "runtime")
_FORBIDDEN: Final = {
    "flows": "a file holds one flow; write it under 'flow'",
    "discovery": "which modules are searched for tasks is the worker's setting PYOCO_DISCOVERY_MODULES",
}
_NOTHING_BUILT_IN: Final[AnyMapping[str, InputCheck]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFlow:
    """A valid flow.yaml, reduced to what its graph reaches."""

    graph: str
    defaults: dict[str, Any]
    tasks: dict[str, TaskDeclaration]
    pipes: dict[str, str]
    expose_env: tuple[str, ...]  # has no effect, as in pyoco


def check_flow_yaml(source: bytes, built_in: AnyMapping[str, InputCheck] = _NOTHING_BUILT_IN) -> CheckedFlow:
    """The flow, or InvalidRequest with every problem.

    `built_in` are the server's own tasks that `use:` may name, each with a check of its inputs.
    """
    root = read_tree(source)
    if not isinstance(root, Mapping):
        message = f"the file must be a mapping with 'flow' and 'tasks', not {described(root)}"
        raise refusal(message, root.location)
    problems = ProblemList()
    read = Reader(problems)
    sections = read.section(root, "", _SECTIONS, _FORBIDDEN)
    _check_version(sections.get("version"), problems)
    flow = read.section(sections.get("flow"), "flow", ("graph", "defaults"))
    defaults = read.json_mapping(flow.get("defaults"), "flow.defaults")
    runtime = read.section(sections.get("runtime"), "runtime", ("expose_env",))
    expose_env = tuple(read.texts(runtime.get("expose_env"), "runtime.expose_env"))
    declared = DeclaredTasks(sections.get("tasks"), read, built_in)
    pipes = _pipes(sections.get("pipes"), read)
    graph = _graph_text(flow.get("graph"), "flow.graph", read)
    if "graph" not in flow and may_hold_keys(sections.get("flow")):
        location = sections.get("flow", root).location
        problems.add("flow.graph", "is missing; it says which tasks run, as in 'load >> save'", location)
    reached = Reached() if graph is None else check_graph(graph, pipes, declared.names, problems)
    tasks = {name: declared.resolved(name) for name in reached.tasks}
    declared.check_one_result(reached.tasks)
    if reached.has_control_flow:
        declared.check_not_isolated(reached.tasks)
    problems.raise_if_any()
    assert graph is not None
    return CheckedFlow(
        graph=graph.text,
        defaults=defaults,
        tasks=tasks,
        pipes={name: pipes[name].text for name in reached.pipes},
        expose_env=expose_env,
    )


def _check_version(node: Node | None, problems: ProblemList) -> None:
    if node is None or (isinstance(node, Scalar) and node.kind == "int" and node.text == "1"):
        return
    value = node.text if isinstance(node, Scalar) else None
    problems.add("version", "must be the number 1", node.location, value)


def _pipes(node: Node | None, read: Reader) -> dict[str, GraphText]:
    texts = {
        name: _graph_text(entry.value, f"pipes.{name}", read)
        for name, entry in read.entries(node, "pipes").items()
    }
    return {name: text for name, text in texts.items() if text is not None}


def _graph_text(node: Node | None, field: str, read: Reader) -> GraphText | None:
    if node is None or read.text(node, field) is None:
        return None
    assert isinstance(node, Scalar)
    return GraphText(field, node.text, node.source_map().location)
