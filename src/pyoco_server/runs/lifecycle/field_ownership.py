"""Who owns which fields of a run's snapshot, once it is executed.

A gateway may write a run while a worker executes it. The worker's next write then finds a conflict, and takes
over the fields that are the gateway's (`merge` in ownership.py). Whatever a gateway writes into another field
of a running snapshot is lost: a new field belongs here first. `handed_over_at` is such a field on purpose: a
gateway sets it when it takes the run from a lost worker, and a worker that turns out to be alive drops it.
"""

from enum import Enum, auto
from typing import Final


class FieldOwner(Enum):
    # Decided at submit: as in the job, from submit to end.
    SUBMIT = auto()
    # Written by the worker that executes the run; by a gateway only while the run has no worker.
    WORKER = auto()
    # Also changed by a gateway while a worker executes the run.
    GATEWAY = auto()


_SUBMIT: Final = (
    *("run_id", "flow_name", "tag", "tags", "submitted_at", "tenant_id", "api_key_id"),
    *("params", "params_sha256", "params_bytes", "workflow_yaml_sha256", "workflow_yaml_bytes"),
    *("timeout_sec", "cause", "start_at"),
    *("origin_run_id", "rerun_mode", "rerun_task", "keep_answers"),
)
_WORKER: Final = (
    *("worker_id", "worker_instance", "attempt", "continuations", "delivery", "generation"),
    *("attempt_started_at", "earlier_attempts", "code_version"),
    *("handed_back", "continues", "handed_over_at", "heartbeat_at", "updated_at", "start_time", "end_time"),
    *("tasks", "task_records", "task_records_truncated", "artifacts", "result_task", "reason", "error"),
    *("waited_sec", "used_sec", "waiting_since", "wait_message", "wait_schema", "wait_deadline_at"),
)
_GATEWAY: Final = (
    # CANCELLING, by a cancel request.
    *("status", "cancel_requested_at", "cancel_requested_by", "cancel_reason", "cancel_force"),
    # Waits of other branches that are decided meanwhile.
    "open_waits",
    # Of a run of an earlier version, which is signed while it is executed.
    "signature",
)

OWNERS: Final = {
    **dict.fromkeys(_SUBMIT, FieldOwner.SUBMIT),
    **dict.fromkeys(_WORKER, FieldOwner.WORKER),
    **dict.fromkeys(_GATEWAY, FieldOwner.GATEWAY),
}


def fields_of(owner: FieldOwner) -> tuple[str, ...]:
    return tuple(name for name, whose in OWNERS.items() if whose is owner)
