"""Limits of the fields that a schedule, an action or a hook keeps for its runs: those of a submit."""

from typing import Any

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import FieldProblem, InvalidRequest, WorkflowTooLarge
from pyoco_server.records.nesting import MAX_INPUT_NESTING, is_nested_deeper
from pyoco_server.records.runs.run_models import encode


def check_params(config: NatsBackendConfig, params: dict[str, Any]) -> None:
    """InvalidRequest if they are nested too deep, or too large."""
    if is_nested_deeper(params, MAX_INPUT_NESTING):
        raise InvalidRequest(problems=[FieldProblem("params", f"nested more than {MAX_INPUT_NESTING} deep")])
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
