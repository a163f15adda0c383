"""Resolves the flow of a run: by name, or from the flow.yaml of its job."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from pyoco.core.models import Flow

from pyoco_server.errors import InvalidRequest
from pyoco_server.records.runs.run_models import Reason, RunStatus
from pyoco_server.worker.engine.flow_run import FlowRun, RunListener
from pyoco_server.worker.engine.journal.json_values import escape_surrogates
from pyoco_server.worker.engine.tasks.raised_error import raised_fields
from pyoco_server.worker.flows.callable_policy import CallablePolicy, FlowBuildError
from pyoco_server.worker.flows.code_version import code_key, code_version
from pyoco_server.worker.flows.flow_files import FlowFolder, load_resolver
from pyoco_server.worker.flows.task_options import invalid_option
from pyoco_server.worker.flows.yaml_flow import build_yaml_flow
from pyoco_server.worker.ipc.protocol import Outcome, Run, Setup

FlowResolver = Callable[[str], Flow]


def no_flows(flow_name: str) -> Flow:
    raise KeyError(
        "this worker has no flows of its own; start one with --flows or --resolver that knows "
        + repr(flow_name)
    )


class FlowSource:
    def __init__(
        self, resolver: FlowResolver, policy: CallablePolicy, folder: FlowFolder | None = None
    ) -> None:
        """`folder` is where the resolver finds the flows; None if it is a function of the user."""
        self._resolver = resolver
        self._policy = policy
        self._folder = folder
        # Known for a folder only: a resolver cannot list its names.
        self.names: list[str] = [] if folder is None else folder.names
        self.failures: dict[str, str] = {} if folder is None else folder.failures

    @classmethod
    def from_setup(cls, setup: Setup) -> "FlowSource":
        """Load the configured flows; a ConfigError or import error stops the worker's start."""
        policy = CallablePolicy.parse(setup.callable_allow)
        if setup.resolver is not None:
            return cls(load_resolver(setup.resolver), policy)
        if setup.flows is None:
            return cls(no_flows, policy)
        folder = FlowFolder(setup.flows, policy)
        folder.load()
        return cls(folder.resolve, policy, folder)

    @property
    def flows_of_files(self) -> dict[str, list[str]]:
        return {} if self._folder is None else self._folder.flows_of_files

    @property
    def _is_known(self) -> bool:
        """Whether its code is that of the folder and of wheels; a resolver may have any."""
        return self._folder is not None or self._resolver is no_flows

    def code_key(self, code_folders: Sequence[str]) -> str:
        """Processes with the same key have the same version of the code; empty for a resolver."""
        if not self._is_known:
            return ""
        return code_key("" if self._folder is None else self._folder.loaded, code_folders)

    def code_version(self, code_folders: Sequence[str]) -> str:
        """The version of its flows and of the wheels in these folders; empty for a resolver."""
        if not self._is_known:
            return ""
        return code_version(None if self._folder is None else self._folder.path, code_folders)

    def described(self, version: str, earlier: Mapping[str, Sequence[str]]) -> bytes:
        """The encoded catalogue of its flows; empty for a resolver, which cannot list them.

        `earlier` are the flows that each file had when it could be loaded.
        """
        if not self._is_known:
            return b""
        from pyoco_server.worker.flows.flow_descriptions import described_flows  # noqa: PLC0415 - in one process only

        return described_flows(self._folder, version, earlier)

    def prepare(self, run: Run, listener: RunListener) -> FlowRun | Outcome:
        """The run, ready to execute, or its outcome if the flow cannot be resolved."""
        prepared = self._prepared(run, listener)
        if isinstance(prepared, Outcome) and self._may_be_newer(run):
            return Outcome(status=RunStatus.RUNNING, must_continue=True, must_restart=True)
        return prepared

    def _prepared(self, run: Run, listener: RunListener) -> FlowRun | Outcome:
        params: dict[str, Any] = msgspec.json.decode(run.params)
        try:
            if run.workflow_yaml is None:
                flow, defaults = self._resolver(run.flow_name), self._defaults(run.flow_name)
            else:
                tasks = {} if self._folder is None else self._folder.tasks
                flow, defaults = build_yaml_flow(run.workflow_yaml, run.flow_name, self._policy, tasks)
        except KeyError as error:
            text = f"flow {run.flow_name!r} was not found: {_not_found_reason(error, run.flow_name)}"
            return _not_runnable(Reason.FLOW_NOT_FOUND, text, error)
        except (FlowBuildError, InvalidRequest) as error:
            return _not_runnable(Reason.EXECUTION_ERROR, str(error), error)
        except Exception as error:  # noqa: BLE001 - a resolver is the user's code
            text = f"resolving flow {run.flow_name!r} raised {type(error).__name__}: {error}"
            return _not_runnable(Reason.EXECUTION_ERROR, text, error)
        problem = (
            invalid_option(flow) or _foreign_dependency(flow) or _unknown_rerun_task(flow, run.rerun_task)
        )
        if problem is not None:
            return Outcome(status=RunStatus.FAILED, reason=Reason.EXECUTION_ERROR, error=problem)
        return FlowRun(run, flow, {**defaults, **params}, listener)

    def _defaults(self, flow_name: str) -> dict[str, Any]:
        return {} if self._folder is None else self._folder.defaults(flow_name)

    def _may_be_newer(self, run: Run) -> bool:
        """Whether a process that loads the folder now may find what is missing; once for each attempt."""
        return not run.in_new_process and self._folder is not None and self._folder.has_changed


def _not_found_reason(error: KeyError, flow_name: str) -> str:
    text = error.args[0] if error.args and isinstance(error.args[0], str) else repr(error)
    return "the worker's resolver does not know it" if text == flow_name else text


def _foreign_dependency(flow: Flow) -> str | None:
    """Explain what the engine would report as a deadlock: pyoco links a task object in all of its flows."""
    if flow.has_control_flow():
        return None
    for task in flow.tasks:
        for dependency in task.dependencies:
            if dependency not in flow.tasks and task.trigger_policy == "ALL":
                return (
                    f"task {task.name!r} waits for {dependency.name!r}, which is not part of this flow; "
                    "a task object belongs to one flow: define it again for the second one"
                )
    return None


def _unknown_rerun_task(flow: Flow, task: str | None) -> str | None:
    if task is None:
        return None
    names = sorted(each.name for each in flow.tasks)
    if task in names:
        return None
    return f"there is no task {task!r} to run this flow from; it has {', '.join(names)}"


def _not_runnable(reason: Reason, text: str, error: Exception) -> Outcome:
    # Errors of the server explain themselves; only user code needs a traceback.
    ours = isinstance(error, FlowBuildError | InvalidRequest | KeyError)
    return Outcome(
        status=RunStatus.FAILED,
        reason=reason,
        error=escape_surrogates(text),
        **raised_fields(error, with_traceback=not ours),
    )
