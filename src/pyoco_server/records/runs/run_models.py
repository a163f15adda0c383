"""The records of runs and their jobs, as stored in JetStream and sent over HTTP.

Field names are a contract. Unknown fields are ignored when a record is read, so that a newer gateway and an
older worker can share a bucket.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.ids import new_uuid
from pyoco_server.records.moments import Seconds, Timestamp
from pyoco_server.records.open_enum import OpenStrEnum
from pyoco_server.records.runs.artifact_models import ArtifactSummary
from pyoco_server.records.runs.causes import Cause
from pyoco_server.records.runs.params_preview import params_preview
from pyoco_server.records.value_types import Count, FlowName, RunId, StoredName, StoredTag, Tag

T = TypeVar("T")
_NO_TAG: Final = b'"tag":null'

new_run_id: Final = new_uuid


class RunStatus(OpenStrEnum):
    # Stored, and not in the queue before its `start_at`.
    SCHEDULED = "SCHEDULED"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    # For a time, a signal or an event; nobody is asked.
    WAITING = "WAITING"
    WAITING_HUMAN = "WAITING_HUMAN"
    CANCELLING = "CANCELLING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def terminal(self) -> bool:
        return self in TERMINAL

    @property
    def parked(self) -> bool:
        """Whether it waits without a worker, a job and a time limit."""
        return self in PARKED


TERMINAL = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})
PARKED = frozenset({RunStatus.WAITING, RunStatus.WAITING_HUMAN})


class TaskStatus(OpenStrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    # For a person, a time, a signal or an event.
    WAITING = "WAITING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    def when_run_ends(self, run: RunStatus, *, unanswered: bool = False) -> "TaskStatus":
        """The state of a task whose run ended without its executor, or while it waited.

        Of the waiting tasks, only the one whose wait has expired or was withdrawn (`unanswered`) has failed;
        the others are cancelled.
        """
        if self is TaskStatus.WAITING:
            failed = unanswered and run is RunStatus.FAILED
            return TaskStatus.FAILED if failed else TaskStatus.CANCELLED
        started = self is TaskStatus.RUNNING
        if run is RunStatus.CANCELLED and (started or self is TaskStatus.PENDING):
            return TaskStatus.CANCELLED
        return TaskStatus.FAILED if started else self


class Reason(StrEnum):
    """Why a run ended; stable across versions."""

    EXECUTION_ERROR = "execution_error"
    FLOW_NOT_FOUND = "flow_not_found"
    INVALID_JOB = "invalid_job"
    EXECUTOR_CRASHED = "executor_crashed"
    DELIVERIES_EXHAUSTED = "deliveries_exhausted"
    TIMEOUT = "timeout"
    CANCEL_FORCED = "cancel_forced"
    HUMAN_TIMEOUT = "human_timeout"
    HUMAN_WITHDRAWN = "human_withdrawn"


# Of a run that failed because a question has no answer: `retry` asks it again.
UNANSWERED: Final = frozenset({Reason.HUMAN_TIMEOUT, Reason.HUMAN_WITHDRAWN})


class RerunMode(StrEnum):
    """Where a rerun begins. START executes everything; the others reuse the journal of the origin."""

    START = "start"
    FAILED = "failed"
    TASK = "task"


class Job(Struct, kw_only=True, omit_defaults=True):
    """Published to `<work prefix>.<tag>`: everything that a worker needs to execute a run."""

    run_id: RunId
    flow_name: FlowName
    tag: Tag
    submitted_at: float
    tags: list[str] = []
    params: dict[str, Any] = {}
    # Of params that are too large for a snapshot: the journal has them, as JSON of this digest and size.
    params_sha256: str | UnsetType = UNSET
    params_bytes: int | UnsetType = UNSET
    workflow_yaml: str | None = None
    workflow_yaml_sha256: str | None = None
    workflow_yaml_bytes: int | None = None
    # How long the run may take from its first start, over all attempts.
    timeout_sec: float | None = None
    # Unset: submitted over HTTP or NATS, or a rerun (`cause_of`).
    cause: Cause | UnsetType = UNSET
    # Not before this time.
    start_at: Timestamp | UnsetType = UNSET
    # Of a rerun.
    origin_run_id: str | None = None
    rerun_mode: RerunMode | None = None
    rerun_task: str | None = None
    # Whether answers of the origin count for the same questions.
    keep_answers: bool = False
    # Of the submitter; None where no API keys are required.
    tenant_id: str | None = None
    api_key_id: str | None = None
    # How often the run had been parked when this was published: the job is valid until the next time.
    generation: int = 0
    # Of the gateway (runs/lifecycle/job_signatures.py); workers keep it in the snapshot.
    signature: str | UnsetType = UNSET


class WaitKind(OpenStrEnum):
    """What a wait waits for; its deadline ends it in any case."""

    # The answer of a person.
    HUMAN = "human"
    # Its deadline.
    SLEEP = "sleep"
    # A signal to its run.
    SIGNAL = "signal"
    # An event that matches.
    EVENT = "event"


class OpenWait(Struct, kw_only=True, omit_defaults=True):
    """A wait of a run that is not decided; `GET /waits/{wait_id}` has the rest."""

    wait_id: str
    task: str
    name: str
    # Its first 300 characters; empty where there are more waits than a snapshot has room for.
    message: str
    # None: it waits for a signal or an event without a time limit.
    deadline_at: Timestamp | None
    # Absent: human.
    kind: WaitKind = WaitKind.HUMAN
    # The name of the signal or event.
    topic: str | None = None
    # When it was opened; None if an earlier version has written it.
    since: Timestamp | None = None
    # As in the wait.
    asked_again: str | None = None


class EarlierAttempt(Struct, kw_only=True, omit_defaults=True):
    """An attempt that did not finish its run, as the next one found it."""

    number: Count
    worker_id: str | None
    # None: its worker was of a version that did not store it.
    started_at: Timestamp | None
    # Its last sign of life.
    last_heartbeat_at: Timestamp
    # Whether its worker has shut down and released the run; otherwise the worker was lost.
    handed_back: bool = False
    # When a gateway noticed that the process of its worker was gone.
    lost_at: Timestamp | None = None


# The latest are kept.
MAX_EARLIER_ATTEMPTS: Final = 20


class DeliveryId(NamedTuple):
    """Identifies a delivery of a job; of two deliveries of one message, the later one is greater."""

    # Of the message in the work stream.
    sequence: Count
    # How often the message had been delivered, this time included.
    number: Count

    def __str__(self) -> str:
        return f"({self.sequence}, {self.number})"


class RunSnapshot(Struct, kw_only=True):
    """The latest state of a run: bucket `pyoco_runs`, key `<run_id>`."""

    run_id: RunId
    flow_name: StoredName
    status: RunStatus
    # Of large ones the beginning (params_preview.py); then `params_sha256` is set.
    params: dict[str, Any]
    tasks: dict[str, TaskStatus]
    # The last heartbeat of its worker; without a worker, when it was queued or parked.
    heartbeat_at: Timestamp
    updated_at: Timestamp
    tag: StoredTag = ""
    tags: list[str] = []
    submitted_at: Timestamp | None = None
    worker_id: str | None = None
    # How many times a worker has claimed this run: a later claim has a greater number. Responses have
    # `shown_attempt` in its place, which does not count `continuations`.
    attempt: Count = 0
    # When the attempt began; unset before the first, and where a worker of an earlier version claimed it.
    attempt_started_at: Timestamp | UnsetType = UNSET
    # Those before it; unset if there are none.
    earlier_attempts: list[EarlierAttempt] | UnsetType = UNSET
    # Of the claims, how many continued it after a wait: not because an earlier worker did not finish it.
    continuations: Count | UnsetType = UNSET
    # The owner's delivery: a greater one is a later owner.
    delivery: DeliveryId | None = None
    # Its owner has shut down and released it; unset otherwise.
    handed_back: bool | UnsetType = UNSET
    # It was released to continue after an answer that came while it was executed: the next claim is not
    # another attempt. Unset otherwise.
    continues: bool | UnsetType = UNSET
    # The process of its worker: the `instance_id` of the worker's record.
    worker_instance: str | UnsetType = UNSET
    # When a gateway had its job delivered again because that process was gone; unset otherwise.
    handed_over_at: Timestamp | UnsetType = UNSET
    start_time: Timestamp | None = None
    end_time: Timestamp | None = None
    # One of `Reason`.
    reason: str | None = None
    error: str | None = None
    cancel_requested_at: Timestamp | None = None
    cancel_requested_by: str | None = None
    cancel_reason: str | None = None
    # Whether it is ended without a grace period; unset otherwise.
    cancel_force: bool | UnsetType = UNSET
    workflow_yaml_sha256: str | None = None
    workflow_yaml_bytes: int | None = None
    params_sha256: str | UnsetType = UNSET
    params_bytes: Count | UnsetType = UNSET
    timeout_sec: Seconds | None = None
    # As in the job.
    cause: Cause | UnsetType = UNSET
    start_at: Timestamp | UnsetType = UNSET
    origin_run_id: str | None = None
    rerun_mode: RerunMode | None = None
    rerun_task: str | None = None
    # Of a rerun that keeps the answers of its origin; unset otherwise.
    keep_answers: bool | UnsetType = UNSET
    # Of the submitter; None where no API keys are required.
    tenant_id: str | None = None
    api_key_id: str | None = None
    # How often it was parked, for how long in all, and since when now.
    generation: Count = 0
    waited_sec: Seconds | UnsetType = UNSET
    # How much of `timeout_sec` was used at this write; unset without one, or before the start.
    used_sec: Seconds | UnsetType = UNSET
    waiting_since: Timestamp | UnsetType | None = UNSET
    # The waits without an answer, and the first of them for display. Unset before the first wait.
    open_waits: list[OpenWait] | UnsetType = UNSET
    wait_message: str | UnsetType | None = UNSET
    wait_schema: str | UnsetType | None = UNSET
    wait_deadline_at: Timestamp | UnsetType | None = UNSET
    # Unset: it has no files.
    artifacts: ArtifactSummary | UnsetType = UNSET
    # Encoded JSON: decoded only where they are read.
    task_records: dict[str, Raw] | UnsetType = UNSET
    task_records_truncated: bool = False
    # The version of the flows and wheels that executed it last, as in the flow catalogue; unset before that,
    # with a resolver, and where a worker of an earlier version executed it.
    code_version: str | UnsetType = UNSET
    # The task that the flow names for the result of the run; unset where it names none.
    result_task: str | UnsetType = UNSET
    # Of the job, by the gateway that accepted it. Workers may write any snapshot, but cannot sign it.
    signature: str | UnsetType = UNSET

    @property
    def shown_attempt(self) -> int:
        """Which attempt this is; an answer does not begin another one."""
        return self.attempt - (self.continuations or 0)


def pending_snapshot(job: Job) -> RunSnapshot:
    """The snapshot of a run that is in the queue; the same on gateway and worker."""
    return RunSnapshot(
        run_id=job.run_id,
        flow_name=job.flow_name,
        status=RunStatus.PENDING,
        params=job.params if job.params_sha256 is UNSET else params_preview(job.params),
        params_sha256=job.params_sha256,
        params_bytes=job.params_bytes,
        tasks={},
        heartbeat_at=job.submitted_at,
        updated_at=job.submitted_at,
        tag=job.tag,
        tags=job.tags or [job.tag],
        submitted_at=job.submitted_at,
        workflow_yaml_sha256=job.workflow_yaml_sha256,
        workflow_yaml_bytes=job.workflow_yaml_bytes,
        timeout_sec=job.timeout_sec,
        cause=job.cause,
        start_at=job.start_at,
        origin_run_id=job.origin_run_id,
        rerun_mode=job.rerun_mode,
        rerun_task=job.rerun_task,
        keep_answers=job.keep_answers or UNSET,
        tenant_id=job.tenant_id,
        api_key_id=job.api_key_id,
        task_records={},
        signature=job.signature,
    )


def first_snapshot(job: Job, now: float) -> RunSnapshot:
    """The snapshot that a run is stored with: PENDING, or SCHEDULED before its `start_at`."""
    snapshot = pending_snapshot(job)
    if job.start_at is not UNSET and job.start_at > now:
        snapshot.status = RunStatus.SCHEDULED
    return snapshot


def job_of(snapshot: RunSnapshot, workflow_yaml: str | None) -> Job:
    """The job of a stored run, the inverse of `pending_snapshot`; its flow.yaml is in the journal.

    Of large params it has the beginning (runs/lifecycle/stored_job.py has all of them).
    """
    return Job(
        run_id=snapshot.run_id,
        flow_name=snapshot.flow_name,
        tag=snapshot.tag,
        submitted_at=snapshot.updated_at if snapshot.submitted_at is None else snapshot.submitted_at,
        tags=snapshot.tags,
        params=snapshot.params,
        params_sha256=snapshot.params_sha256,
        params_bytes=snapshot.params_bytes,
        workflow_yaml=workflow_yaml,
        workflow_yaml_sha256=snapshot.workflow_yaml_sha256,
        workflow_yaml_bytes=snapshot.workflow_yaml_bytes,
        timeout_sec=snapshot.timeout_sec,
        cause=snapshot.cause,
        start_at=snapshot.start_at,
        origin_run_id=snapshot.origin_run_id,
        rerun_mode=snapshot.rerun_mode,
        rerun_task=snapshot.rerun_task,
        keep_answers=snapshot.keep_answers is True,
        tenant_id=snapshot.tenant_id,
        api_key_id=snapshot.api_key_id,
        generation=snapshot.generation,
        signature=snapshot.signature,
    )


def snapshot_decoder(kind: type[T], *, whole: bool = True) -> Callable[[bytes], T]:
    """As `record_decoder`, of snapshots or of some of their fields."""
    decode = record_decoder(kind, whole=whole)

    def decoded(data: bytes) -> T:
        try:
            return decode(data)
        except UnreadableRecord:
            # The public package writes null where it has lost a run's tag.
            if _NO_TAG not in data:
                raise
            return decode(data.replace(_NO_TAG, b'"tag":""', 1))

    return decoded


encode = msgspec.json.Encoder().encode
decode_job = record_decoder(Job)
decode_snapshot = snapshot_decoder(RunSnapshot)
