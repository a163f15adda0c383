"""Limits of the fields that a schedule, an action or a hook keeps for its runs: those of a submit."""

from typing import Any, Final

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import FieldProblem, InvalidRequest, WorkflowTooLarge
from pyoco_server.records.runs.run_models import encode
from pyoco_server.runs.flow_yaml.nesting import check_nesting

_MAX_NESTING: Final = 100


def check_params(config: NatsBackendConfig, params: dict[str, Any]) -> None:
    """InvalidRequest if they are nested too deep, or too large."""
    if not check_nesting(params, _MAX_NESTING):
        raise InvalidRequest(problems=[FieldProblem("params", f"nested more than {_MAX_NESTING} deep")])
    most = config.max_run_snapshot_bytes
    if (size := len(encode(params))) > most:
        message = (
            f"they take {size} bytes, at most {most} are allowed; pass a reference to large data, or raise "
            "PYOCO_MAX_RUN_SNAPSHOT_BYTES"
        )
        raise InvalidRequest(problems=[FieldProblem("params", message)])


def check_workflow_size(config: NatsBackendConfig, source: bytes) -> None:
    """WorkflowTooLarge if the flow.yaml is too large."""
    most = config.workflow_yaml_max_bytes
    if len(source) > most:
        raise WorkflowTooLarge(
            f"workflow_yaml is larger than {most} bytes (PYOCO_WORKFLOW_YAML_MAX_BYTES)",
            problems=[FieldProblem("workflow_yaml", f"expected at most {most} bytes")],
        )
