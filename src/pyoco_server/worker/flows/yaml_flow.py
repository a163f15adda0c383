"""Builds a pyoco flow from the flow.yaml of a job.

The file is validated again, since a worker does not trust the queue; then every callable is checked against
the policy; only then is anything imported, and only what the graph reaches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from pyoco.core.models import Flow, Task
from pyoco.dsl.graph import build_flow_from_graph
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.errors import FieldProblem
from pyoco_server.runs.flow_yaml import TaskDeclaration
from pyoco_server.waits.human.human_task_yaml import BUILT_IN_TASKS, check_submitted_flow
from pyoco_server.worker.engine.tasks.task_calls import retries_and_limit
from pyoco_server.worker.flows.callable_policy import (
    CallablePolicy,
    CallableRefused,
    FlowBuildError,
    task_function,
)
from pyoco_server.worker.flows.importing import ImportFailure, import_object
from pyoco_server.worker.flows.worker_tasks import FileTask, WorkerTasks

_NO_FILES: Final[Mapping[str, Sequence[FileTask]]] = MappingProxyType({})


def build_yaml_flow(
    source: bytes,
    flow_name: str,
    policy: CallablePolicy,
    file_tasks: Mapping[str, Sequence[FileTask]] = _NO_FILES,
) -> tuple[Flow, dict[str, Any]]:
    """A new flow, and the defaults of its params; `file_tasks` are the tasks of the worker's flow files.

    Raises InvalidRequest for an invalid file, CallableRefused for a callable that the policy does not allow,
    FlowBuildError for a task that cannot be imported or found.
    """
    checked = check_submitted_flow(source)
    _check_policy(checked.tasks, policy)
    of_worker = WorkerTasks(policy, file_tasks)
    tasks = {name: _task(name, declaration, policy, of_worker) for name, declaration in checked.tasks.items()}
    flow = build_flow_from_graph(graph=checked.graph, tasks=tasks, pipes=checked.pipes, flow_name=flow_name)
    return flow, checked.defaults


def _task(name: str, declaration: TaskDeclaration, policy: CallablePolicy, of_worker: WorkerTasks) -> Task:
    if declaration.callable is not None:
        task = _callable_task(name, declaration.callable, policy)
    elif built_in := BUILT_IN_TASKS.get(declaration.use or ""):
        task = Task(func=built_in, name=name)
    else:
        task = of_worker.clone(declaration.use or name, name)
    task.inputs.update(declaration.inputs)
    task.outputs.extend(declaration.outputs)
    for option, value in declaration.options.items():
        setattr(task, option, value)
    return task


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
    task = Task(func=function, name=name)
    if isinstance(found := _inner_task(found), Task):
        # What the code says about its task holds, unless the file says something else.
        task.fail_policy = found.fail_policy
        task.retries, task.timeout_sec = retries_and_limit(found)
    return task


def _inner_task(found: object) -> object:
    return found.task if isinstance(found, TaskWrapper) else found
