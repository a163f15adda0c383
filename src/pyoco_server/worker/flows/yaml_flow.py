"""Builds a pyoco flow from the flow.yaml of a job.

The file is validated again, since a worker does not trust the queue; then every callable is checked against
the policy; only then is anything imported, and only what the graph reaches.
"""

from __future__ import annotations

import logging
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from pyoco.core.models import Flow, Task
from pyoco.dsl.graph import build_flow_from_graph

from pyoco_server.errors import FieldProblem
from pyoco_server.human.human_task_yaml import HUMAN_TASK, ask, check_submitted_flow
from pyoco_server.runs.flow_yaml import TaskDeclaration, did_you_mean
from pyoco_server.worker.engine.pyoco_adapter import discover_plugin_tasks
from pyoco_server.worker.flows.callable_policy import (
    CallablePolicy,
    CallableRefused,
    FlowBuildError,
    task_function,
)
from pyoco_server.worker.flows.importing import ImportFailure, described_failure, import_object

log = logging.getLogger(__name__)


def build_yaml_flow(source: bytes, flow_name: str, policy: CallablePolicy) -> tuple[Flow, dict[str, Any]]:
    """A new flow, and the defaults of its params.

    Raises InvalidRequest for an invalid file, CallableRefused for a callable that the policy does not allow,
    FlowBuildError for a task that cannot be imported or found.
    """
    checked = check_submitted_flow(source)
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


@dataclass(frozen=True, slots=True)
class PluginTasks:
    """The tasks that `use:` can name. The operator has installed them, so that no policy applies."""

    tasks: dict[str, Task] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def discover(cls) -> PluginTasks:
        try:
            tasks, warnings = discover_plugin_tasks()
        except (Exception, SystemExit) as exc:
            # pyoco handles only ImportError; a module may raise anything else.
            reason = f"the modules of PYOCO_DISCOVERY_MODULES cannot be loaded: {described_failure(exc)}"
            raise FlowBuildError(reason) from exc
        for warning in warnings:
            log.warning("pyoco plug-ins: %s", warning)
        return cls(tasks, warnings)

    def clone(self, target: str, name: str) -> Task:
        """A copy of the plug-in's task, with its policies, under the name that it has in the flow."""
        source = self.tasks.get(target)
        if source is None:
            hint = (
                did_you_mean(target, self.tasks) or f"; there are: {', '.join(sorted(self.tasks)) or 'none'}"
            )
            because = f" ({'; '.join(self.warnings)})" if self.warnings else ""
            message = f"no plug-in on this worker has a task {target!r}{hint}{because}"
            raise FlowBuildError(f"task {name!r}: {message}", task=name)
        return Task(
            func=source.func,
            name=name,
            inputs=deepcopy(source.inputs),
            outputs=list(source.outputs),
            parallel_group=source.parallel_group,
            fail_policy=source.fail_policy,
            retries=source.retries,
            timeout_sec=source.timeout_sec,
            trigger_policy=source.trigger_policy,
        )
