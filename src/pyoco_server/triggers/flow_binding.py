"""What an action or a hook starts, as a job; its fields are checked as those of a submit."""

from collections.abc import Awaitable, Callable
from typing import Any

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import FieldProblem, InvalidRequest, WorkflowTooLarge
from pyoco_server.records.runs.causes import Cause
from pyoco_server.records.runs.run_models import Job, encode
from pyoco_server.records.triggers.trigger_models import FlowBinding
from pyoco_server.runs.flow_yaml.nesting import check_nesting
from pyoco_server.runs.lifecycle.submission import new_job

_MAX_NESTING = 100


async def checked_binding(
    config: NatsBackendConfig,
    check_flow: Callable[[bytes], Awaitable[object]],
    *,
    flow_name: str,
    workflow_yaml: str | None = None,
    tag: str | None = None,
    tags: list[str] | None = None,
    params: dict[str, Any] | None = None,
    timeout_sec: float | None = None,
) -> FlowBinding:
    """InvalidRequest or WorkflowTooLarge names the field that a submit would refuse.

    `check_flow` checks a flow.yaml.
    """
    params = params or {}
    check_params(config, params)
    if workflow_yaml is not None:
        source = workflow_yaml.encode()
        most = config.workflow_yaml_max_bytes
        if len(source) > most:
            raise WorkflowTooLarge(
                f"workflow_yaml is larger than {most} bytes (PYOCO_WORKFLOW_YAML_MAX_BYTES)",
                problems=[FieldProblem("workflow_yaml", f"expected at most {most} bytes")],
            )
        await check_flow(source)
    return FlowBinding(
        flow_name=flow_name,
        workflow_yaml=workflow_yaml,
        tag=tag or config.default_tag,
        tags=list(tags or ()),
        params=params,
        timeout_sec=timeout_sec,
    )


def check_params(config: NatsBackendConfig, params: dict[str, Any]) -> None:
    if not check_nesting(params, _MAX_NESTING):
        raise InvalidRequest(problems=[FieldProblem("params", f"nested more than {_MAX_NESTING} deep")])
    most = config.max_run_snapshot_bytes
    if (size := len(encode(params))) > most:
        message = (
            f"they take {size} bytes, at most {most} are allowed; pass a reference to large data, or raise "
            "PYOCO_MAX_RUN_SNAPSHOT_BYTES"
        )
        raise InvalidRequest(problems=[FieldProblem("params", message)])


def job_of_binding(
    binding: FlowBinding,
    params: dict[str, Any],
    *,
    tenant_id: str | None,
    api_key_id: str | None,
    cause: Cause,
) -> Job:
    """`params` come from the event; the fixed ones of the binding replace them."""
    job = new_job(
        flow_name=binding.flow_name,
        tag=binding.tag,
        tags=binding.tags,
        params=params | binding.params,
        timeout_sec=binding.timeout_sec,
        workflow_yaml=None if binding.workflow_yaml is None else binding.workflow_yaml.encode(),
        cause=cause,
    )
    job.tenant_id, job.api_key_id = tenant_id, api_key_id
    return job
