"""From the flow.yaml that a job carries to a flow that pyoco can run.

The file is checked again, since a worker does not trust the queue; then every callable is held against
the policy; only then is anything imported, and only what the graph reaches.
"""

from __future__ import annotations

from typing import Any

from pyoco.core.models import Flow, Task
from pyoco.dsl.graph import build_flow_from_graph

from pyoco_server.errors import FieldProblem
from pyoco_server.human.human_task_yaml import HUMAN_TASK, ask, check_flow_yaml
from pyoco_server.runs.flow_yaml import TaskDeclaration
from pyoco_server.worker.flows.callable_policy import CallablePolicy, task_function
from pyoco_server.worker.flows.flow_errors import CallableRefused, FlowBuildError
from pyoco_server.worker.flows.importing import ImportFailure, import_object
from pyoco_server.worker.flows.plugin_tasks import PluginTasks

__all__ = ["FlowBuildError", "build_yaml_flow"]


def build_yaml_flow(source: bytes, flow_name: str, policy: CallablePolicy) -> tuple[Flow, dict[str, Any]]:
    """The flow, which is the caller's to change, and its defaults.

    Raises InvalidRequest for a file that is not valid, CallableRefused for a callable that the policy
    does not allow, FlowBuildError for a task that cannot be imported or found.
    """
    checked = check_flow_yaml(source)
    _check_policy(checked.tasks, policy)
    uses_plugins = any(declaration.use not in (None, HUMAN_TASK) for declaration in checked.tasks.values())
    plugins = PluginTasks.discover() if uses_plugins else PluginTasks()
    tasks: dict[str, Task] = {}
    for name, declaration in checked.tasks.items():
        if declaration.callable is not None:
            tasks[name] = _callable_task(name, declaration.callable, policy)
        elif declaration.use == HUMAN_TASK:
            tasks[name] = Task(func=ask, name=name)
        elif declaration.use is not None:
            tasks[name] = plugins.clone(declaration.use, name)
        tasks[name].inputs.update(declaration.inputs)
        tasks[name].outputs.extend(declaration.outputs)
    flow = build_flow_from_graph(graph=checked.graph, tasks=tasks, pipes=checked.pipes, flow_name=flow_name)
    return flow, checked.defaults


def _check_policy(tasks: dict[str, TaskDeclaration], policy: CallablePolicy) -> None:
    """Every callable, before the first import."""
    problems: list[FieldProblem] = []
    refused: CallableRefused | None = None
    for name, declaration in tasks.items():
        if declaration.callable is None:
            continue
        try:
            policy.check(declaration.callable)
        except CallableRefused as exc:
            refused = refused or exc
            problems.append(FieldProblem(f"tasks.{name}.callable", exc.detail))
    if refused is not None:
        raise CallableRefused(problems=problems, module=refused.module) from refused


def _callable_task(name: str, path: str, policy: CallablePolicy) -> Task:
    module = path.partition(":")[0]
    try:
        found = import_object(path)
    except ImportFailure as exc:
        raise FlowBuildError(f"task {name!r}: {exc}", task=name, module=module) from exc
    function = task_function(found)
    if function is None:
        kind = type(found).__name__
        message = f"task {name!r}: {path!r} cannot be called; it is of type {kind}"
        raise FlowBuildError(message, task=name, module=module)
    try:
        policy.check_origin(path, function)
    except CallableRefused as exc:
        raise CallableRefused(f"task {name!r}: {exc.detail}", task=name, module=exc.module) from exc
    return Task(func=function, name=name)
