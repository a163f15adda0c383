"""Where an executor finds the flow of a run, and what becomes of a run whose flow cannot be had."""

import traceback
from collections.abc import Callable
from typing import Any

import msgspec
from pyoco.core.models import Flow

from pyoco_server.errors import InvalidRequest
from pyoco_server.models import Reason, RunStatus
from pyoco_server.worker.callable_policy import CallablePolicy
from pyoco_server.worker.flow_files import FlowFolder, load_resolver
from pyoco_server.worker.flow_run import FlowRun
from pyoco_server.worker.protocol import Outcome, Run, Setup
from pyoco_server.worker.yaml_flow import FlowBuildError, build_yaml_flow

FlowResolver = Callable[[str], Flow]


def no_flows(flow_name: str) -> Flow:
    raise KeyError(
        "this worker has no flows of its own; start one with --flows or --resolver that knows "
        + repr(flow_name)
    )


class FlowSource:
    """Resolves flow names, and builds flows from the flow.yaml that a job carries."""

    def __init__(self, resolver: FlowResolver, policy: CallablePolicy) -> None:
        self._resolver = resolver
        self._policy = policy

    @classmethod
    def from_setup(cls, setup: Setup) -> "FlowSource":
        """Load what the worker was told to; a ConfigError or import error stops the worker's start."""
        resolver: FlowResolver = no_flows
        if setup.resolver is not None:
            resolver = load_resolver(setup.resolver)
        elif setup.flows is not None:
            folder = FlowFolder(setup.flows)
            folder.load()
            resolver = folder.resolve
        return cls(resolver, CallablePolicy.parse(setup.callable_allow))

    def prepare(self, run: Run) -> FlowRun | Outcome:
        """The run, ready to execute, or the outcome of a run whose flow cannot be had."""
        params: dict[str, Any] = msgspec.json.decode(run.params)
        try:
            if run.workflow_yaml is None:
                flow = self._resolver(run.flow_name)
            else:
                flow, defaults = build_yaml_flow(run.workflow_yaml, run.flow_name, self._policy)
                params = {**defaults, **params}
        except KeyError as error:
            known = error.args[0] if error.args and isinstance(error.args[0], str) else repr(error)
            return _not_runnable(
                Reason.FLOW_NOT_FOUND, f"flow {run.flow_name!r} was not found: {known}", error
            )
        except (FlowBuildError, InvalidRequest) as error:
            return _not_runnable(Reason.EXECUTION_ERROR, str(error), error)
        except Exception as error:  # noqa: BLE001 - a resolver is the user's code
            text = f"resolving flow {run.flow_name!r} raised {type(error).__name__}: {error}"
            return _not_runnable(Reason.EXECUTION_ERROR, text, error)
        return FlowRun(run.run_id, flow, params)


def _not_runnable(reason: Reason, text: str, error: Exception) -> Outcome:
    return Outcome(
        status=RunStatus.FAILED,
        reason=reason,
        error=text,
        exc_type=type(error).__name__,
        exc_traceback="".join(traceback.format_exception(error)),
    )
