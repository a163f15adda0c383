"""What an action or a hook starts, as a job; its fields are checked as those of a submit."""

from collections.abc import Awaitable, Callable
from typing import Any

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.causes import Cause
from pyoco_server.records.runs.run_models import Job
from pyoco_server.records.triggers.hook_models import HookRecord
from pyoco_server.records.triggers.trigger_models import FlowBinding
from pyoco_server.runs.lifecycle.input_limits import check_params, check_workflow_size
from pyoco_server.runs.lifecycle.submission import new_job


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
        check_workflow_size(config, source)
        await check_flow(source)
    return FlowBinding(
        flow_name=flow_name,
        workflow_yaml=workflow_yaml,
        tag=tag or config.default_tag,
        tags=list(tags or ()),
        params=params,
        timeout_sec=timeout_sec,
    )


def job_of_binding(
    binding: FlowBinding | HookRecord,
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
