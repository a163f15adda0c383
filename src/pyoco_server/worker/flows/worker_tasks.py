"""The tasks that a flow.yaml may name without a callable: those of plug-ins, and those of flow files."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property

from pyoco.core.models import Task

from pyoco_server.runs.flow_yaml import did_you_mean
from pyoco_server.worker.engine.pyoco_adapter import discover_plugin_tasks
from pyoco_server.worker.engine.tasks.task_calls import retries_and_limit
from pyoco_server.worker.flows.callable_policy import (
    CallablePolicy,
    CallableRefused,
    FlowBuildError,
    task_function,
)
from pyoco_server.worker.flows.importing import described_failure

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class FileTask:
    """A variable of a flow file that holds a task."""

    file: str
    task: Task


@dataclass(frozen=True)
class WorkerTasks:
    """A plug-in's task comes first. Nothing is imported before a task is looked for."""

    policy: CallablePolicy
    in_files: Mapping[str, Sequence[FileTask]]

    def clone(self, target: str, name: str) -> Task:
        """A copy of the task, with its inputs and options, under the name that it has in the flow."""
        plugins, warnings = self._plugins
        found = plugins.get(target) or self._in_files(target, name)
        if found is not None:
            return _copy(found, name)
        known = sorted({*plugins, *self.in_files})
        hint = did_you_mean(target, known) or f"; there are: {', '.join(known) or 'none'}"
        because = f" ({'; '.join(warnings)})" if warnings else ""
        message = f"task {name!r}: no plug-in and no flow file on this worker has a task {target!r}"
        raise FlowBuildError(f"{message}{hint}{because}", task=name)

    def _in_files(self, target: str, name: str) -> Task | None:
        found = self.in_files.get(target, ())
        if len(found) > 1:
            files = " and in ".join(each.file for each in found)
            cure = "rename all but one, or name one of them with 'callable: module:function'"
            raise FlowBuildError(f"task {name!r}: there is a task {target!r} in {files}; {cure}", task=name)
        for each in found:
            try:
                self.policy.check_origin(f"{each.file}:{target}", task_function(each.task))
            except CallableRefused as exc:
                raise CallableRefused(f"task {name!r}: {exc.detail}", task=name, module=exc.module) from exc
            return each.task
        return None

    @cached_property
    def _plugins(self) -> tuple[dict[str, Task], list[str]]:
        """The operator has installed them, so that no policy applies."""
        try:
            tasks, warnings = discover_plugin_tasks()
        except (Exception, SystemExit) as exc:
            # pyoco handles only ImportError; a module may raise anything else.
            reason = f"the modules of PYOCO_DISCOVERY_MODULES cannot be loaded: {described_failure(exc)}"
            raise FlowBuildError(reason) from exc
        for warning in warnings:
            log.warning("pyoco plug-ins: %s", warning)
        return tasks, warnings


def _copy(source: Task, name: str) -> Task:
    retries, timeout_sec = retries_and_limit(source)
    return Task(
        func=source.func,
        name=name,
        inputs=deepcopy(source.inputs),
        outputs=list(source.outputs),
        parallel_group=source.parallel_group,
        fail_policy=source.fail_policy,
        retries=retries,
        timeout_sec=timeout_sec,
        trigger_policy=source.trigger_policy,
    )
