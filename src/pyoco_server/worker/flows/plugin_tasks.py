"""The tasks that `use:` can name: those of installed plug-ins and of PYOCO_DISCOVERY_MODULES.

They are the worker's own, put there by whoever installed it, so the callable policy is not asked. pyoco
prints what it cannot load and goes on; here it is logged, and told to the run that misses a task.
"""

from __future__ import annotations

import io
import logging
from contextlib import redirect_stdout
from copy import deepcopy
from dataclasses import dataclass, field
from types import SimpleNamespace

from pyoco.core.models import Task
from pyoco.discovery.loader import TaskLoader

from pyoco_server.runs.flow_yaml import did_you_mean
from pyoco_server.worker.flows.flow_errors import FlowBuildError
from pyoco_server.worker.flows.importing import described_failure

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PluginTasks:
    tasks: dict[str, Task] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @classmethod
    def discover(cls) -> PluginTasks:
        loader = TaskLoader(SimpleNamespace(tasks={}))  # no declared tasks: pyoco imports no callable
        printed = io.StringIO()
        try:
            with redirect_stdout(printed):
                loader.load()
        except (Exception, SystemExit) as exc:
            # pyoco forgives an ImportError only; a module may raise anything else while it is imported.
            reason = f"the modules of PYOCO_DISCOVERY_MODULES cannot be loaded: {described_failure(exc)}"
            raise FlowBuildError(reason) from exc
        warnings = tuple(line for line in printed.getvalue().splitlines() if line.strip())
        for warning in warnings:
            log.warning("pyoco plug-ins: %s", warning)
        return cls(dict(loader.tasks), warnings)

    def clone(self, target: str, name: str) -> Task:
        """The plug-in's task under the name it has in the flow, with the policies the plug-in gave it."""
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
