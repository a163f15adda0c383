"""Why a worker has no flow to run: the exceptions of loading and building flows."""

from __future__ import annotations

from collections.abc import Sequence

from pyoco_server.errors import FieldProblem, FlowNotFound, PyocoError
from pyoco_server.errors.error_table import Err


class FlowBuildError(PyocoError):
    """A flow.yaml is valid, but this worker cannot make a flow of it."""

    error = Err.EXECUTION_FAILED

    def __init__(
        self,
        detail: str = "",
        *,
        problems: Sequence[FieldProblem] = (),
        task: str | None = None,
        module: str | None = None,
    ) -> None:
        super().__init__(detail, problems=problems)
        self.task = task
        self.module = module


class CallableRefused(FlowBuildError):
    """`callable:` names something that this worker's policy does not allow."""


class UnknownFlow(FlowNotFound, KeyError):
    """No flow of this name; a KeyError too, which is how a flow resolver says so."""
