"""The records of jobs, runs, workers and dead letters, as stored in JetStream and sent over HTTP.

Field names are a contract. Unknown fields are ignored when a record is read, so that a newer gateway and an
older worker can share a bucket.
"""

import re
import time
from collections.abc import Callable, Iterable
from enum import StrEnum
from hashlib import blake2b
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, structs

from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.artifact_models import ArtifactSummary
from pyoco_server.records.causes import Cause
from pyoco_server.records.decoding import json_record
from pyoco_server.records.ids import new_uuid
from pyoco_server.records.moments import Seconds, Timestamp
from pyoco_server.records.open_enum import OpenStrEnum
from pyoco_server.records.params_preview import params_preview

T = TypeVar("T")

# `$` alone also matches before a final newline, in Python; `(?!\n)` holds in OpenAPI's dialect as well.
TAG_PATTERN = r"^[A-Za-z0-9_-]{1,64}$(?!\n)"
WORKER_ID_PATTERN = r"^[A-Za-z0-9_-]{1,128}$(?!\n)"
FLOW_NAME_PATTERN = r"^[^\x00-\x1f\x7f]{1,200}$(?!\n)"
RUN_ID_PATTERN = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$(?!\n)"

# The same in words, for error messages.
TAG_EXPECTED = "expected 1 to 64 letters, digits, '_' or '-' (no '.')"
WORKER_ID_EXPECTED = "expected 1 to 128 letters, digits, '_' or '-'"
RUN_ID_EXPECTED = "expected a run id: a lower-case UUID"
FLOW_NAME_EXPECTED = "expected 1 to 200 printable characters, without an API key"
# 30 days.
RUN_TIMEOUT_MAX_SEC = 2_592_000
RUN_TIMEOUT_EXPECTED = f"expected a number of seconds above 0, at most {RUN_TIMEOUT_MAX_SEC} (30 days)"

Tag = Annotated[
    str, Meta(pattern=TAG_PATTERN, description="One token of a NATS subject: letters, digits, _ or -.")
]
Label = Annotated[str, Meta(min_length=1, max_length=100)]
Labels = Annotated[list[Label], Meta(max_length=50)]
# Of new runs: a flow's name is shown to everybody who may read the run.
_API_KEY = r"pyoco_([0-9a-f]{16}_[0-9a-f]{64}|[0-9a-f]{24}(_[0-9a-f]{64}|\.[0-9A-Za-z_-]{20}))"
NEW_FLOW_NAME_PATTERN = rf"^(?!.*{_API_KEY}){FLOW_NAME_PATTERN[1:]}"
NewFlowName = Annotated[
    str, Meta(pattern=NEW_FLOW_NAME_PATTERN, description="1 to 200 printable characters, without an API key.")
]
FlowName = Annotated[str, Meta(pattern=FLOW_NAME_PATTERN, description="1 to 200 printable characters.")]
RunTimeout = Annotated[
    float, Meta(gt=0, le=RUN_TIMEOUT_MAX_SEC, description="How long the run may take, in seconds.")
]
RunId = Annotated[str, Meta(pattern=RUN_ID_PATTERN, description="A lower-case UUID.")]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
NonNegative = Annotated[float, Meta(ge=0, le=1e9)]
StoredTag = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{0,64}$(?!\n)")]
StoredName = Annotated[str, Meta(max_length=200)]

_RUN_ID = re.compile(RUN_ID_PATTERN)
_TAG = re.compile(TAG_PATTERN)
_NO_TAG: Final = b'"tag":null'


def is_run_id(text: str) -> bool:
    return _RUN_ID.fullmatch(text) is not None


def is_tag(text: str) -> bool:
    return _TAG.fullmatch(text) is not None


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


class WorkerState(StrEnum):
    RUNNING = "RUNNING"
    IDLE = "IDLE"
    STOPPED_GRACEFUL = "STOPPED_GRACEFUL"
    DISCONNECTED = "DISCONNECTED"

    @property
    def alive(self) -> bool:
        return self in (WorkerState.RUNNING, WorkerState.IDLE)


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


class RunSnapshot(Struct, kw_only=True):
    """The latest state of a run: bucket `pyoco_runs`, key `<run_id>`."""

    run_id: RunId
    flow_name: StoredName
    status: RunStatus
    # Of large ones the beginning (params_preview.py); then `params_sha256` is set.
    params: dict[str, Any]
    tasks: dict[str, TaskStatus]
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
    # (stream sequence, delivery number) of the owner's delivery: a greater one is a later owner.
    delivery: tuple[Count, Count] | None = None
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


class JournalEntry(Struct, kw_only=True, omit_defaults=True):
    """The result of one finished task, or of one step of it, with which it need not be executed again.

    One message of `<journal prefix>.<tag>.<run_id>`. Only executors decode the values.
    """

    # `task|loop path|occurrence`, and for a step of it also `|step|occurrence`.
    key: str
    task: str
    # The attempt that wrote it; of two entries with one key the later attempt's is valid. 0: copied from the
    # run that this one repeats.
    attempt: Count
    started_at: Timestamp
    ended_at: Timestamp
    # Empty, without an error: the result is not stored or not valid, and the task is executed again.
    output: bytes = b""
    # Changes of the flow's scratch, params and variables.
    changes: bytes = b""
    # Of a task that failed while its flow continues without it.
    error: str | None = None
    # Its position among the run's entries, counted by the executors from 1 without a gap over all attempts.
    # 0: written by a version that did not count.
    number: Count = 0
    # The number of the last entry that its attempt began with; the attempt counts on from there.
    base: Count = 0
    # Executed again, with the same result as the entry of this number: what depends on that one is valid.
    same_as: Count = 0
    # Of the task and everything before it in its flow; empty where that is unknown.
    shape: bytes = b""
    # Of a result that is not stored: to compare it with the next one, and why it is not stored.
    digest: bytes = b""
    why: str = ""

    @property
    def place(self) -> int:
        """Its position in the order of computation."""
        return self.same_as or self.number

    @property
    def has_value(self) -> bool:
        return bool(self.output) or self.error is not None

    def without_value(self, why: str, digest: bytes = b"") -> "JournalEntry":
        """The same position for a result that is not stored, or not valid any more."""
        return structs.replace(self, output=b"", changes=b"", error=None, digest=digest, why=why)


def value_digest(output: bytes, changes: bytes) -> bytes:
    return blake2b(output + changes, digest_size=16).digest()


class LogLine(Struct, kw_only=True, omit_defaults=True):
    """One line that a run printed, or a note about lines that were dropped."""

    ts: Timestamp
    # stdout, stderr, or note (about missing lines).
    stream: StoredName
    text: str
    # None when one of several tasks may have printed it.
    task: str | None = None
    attempt: Count = 1


class DeadLetter(Struct, kw_only=True, omit_defaults=True):
    """Published to `<dlq prefix>.<tag>`: why a run failed, or a message is unusable."""

    timestamp: Timestamp
    reason: str
    error: str | None
    run_id: str | None = None
    flow_name: str | None = None
    tag: str | None = None
    tags: list[str] | None = None
    worker_id: str | None = None
    num_delivered: Count | None = None
    subject: str | None = None
    # Of its run; None where no API keys are required, or where it is unknown.
    tenant_id: str | None = None


class InstalledWheel(Struct, kw_only=True):
    """A wheel that a worker has installed."""

    name: str
    package: str
    version: str
    nuid: str
    sha256_hex: str | None
    installed_at: Timestamp
    # What it requires, and neither the worker's Python nor another of its wheels has.
    missing: list[str] = []


class SkippedWheel(Struct, kw_only=True):
    """A wheel that is selected for a worker, and incompatible with its Python or system."""

    name: str
    reason: str
    # What it needs, and the worker does not have: `python` or `platform`. None in earlier versions.
    needs: str | None = None
    # The version of Python, or the tags of the wheel's name.
    expected: str | None = None


class FailedWheel(Struct, kw_only=True):
    """A wheel that a worker could not install."""

    name: str
    reason: str


class WheelSyncResult(StrEnum):
    DISABLED = "disabled"
    # Before the first sync.
    IDLE = "idle"
    OK = "ok"
    ERROR = "error"


class WheelSyncState(Struct, kw_only=True):
    """The wheels of a worker. Lists are cut after a hundred, counts are not."""

    enabled: bool = False
    last_result: WheelSyncResult = WheelSyncResult.DISABLED
    error: str | None = None
    last_attempt_at: Timestamp | None = None
    last_success_at: Timestamp | None = None
    # When a wheel was last installed or removed: `updated` and `removed` are of that time.
    last_synced_at: Timestamp | None = None
    selected_count: Count = 0
    updated_count: Count = 0
    removed_count: Count = 0
    skipped_incompatible_count: Count = 0
    selected_wheels: list[str] = []
    updated_wheels: list[str] = []
    removed_wheels: list[str] = []
    skipped_incompatible: list[SkippedWheel] = []
    # Of the last sync; it is tried again.
    failed_wheels: list[FailedWheel] = []
    installed_wheels: list[InstalledWheel] = []


# The record is written with each heartbeat: the catalogue has the rest.
MAX_LISTED_FLOWS: Final = 200


class CatalogueReference(Struct, kw_only=True, frozen=True):
    """Where the flows of a worker are described (records/flow_models.py)."""

    # SHA-256 of the encoded catalogue. It becomes a token of a subject.
    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]
    flows: Count


class WorkerHost(Struct, kw_only=True, frozen=True):
    """Where a worker runs."""

    name: str
    # Such as `Linux x86_64`.
    system: str
    python: str
    cpus: Count
    # None: not reported by the system.
    memory_bytes: Count | None = None


class WorkerUsage(Struct, kw_only=True, frozen=True):
    """CPU and memory since the last measurement. None: not known yet, or not reported by the system."""

    at: Timestamp
    # Of the worker and all processes of its runs.
    processes: Count = 0
    # 1.0 is one core.
    cpu_cores: NonNegative | None = None
    # Resident. Memory that processes share counts for each of them.
    memory_bytes: Count | None = None
    # Of the whole host; 1.0 is all its cores.
    host_cpu: NonNegative | None = None
    host_memory_bytes: Count | None = None


class WorkerEventKind(OpenStrEnum):
    STARTED = "started"
    STOPPED = "stopped"
    # It was silent for longer than the disconnect timeout; the time is that of its last heartbeat.
    DISCONNECTED = "disconnected"
    RECONNECTED = "reconnected"
    # Commands of operators.
    PAUSED = "paused"
    RESUMED = "resumed"
    DRAIN_REQUESTED = "drain_requested"
    HIDDEN = "hidden"
    SHOWN = "shown"


class WorkerEvent(Struct, kw_only=True, frozen=True, omit_defaults=True):
    """What happened to a worker."""

    at: Timestamp
    kind: WorkerEventKind
    # Who did it: the name or the id of the API key, and its tenant. None: without an API key, or nobody.
    by: str | None = None
    tenant_id: str | None = None
    # Why it stopped.
    reason: str | None = None


# The record is written with each heartbeat.
MAX_WORKER_EVENTS: Final = 20


def with_events(history: Iterable[WorkerEvent], *events: WorkerEvent) -> list[WorkerEvent]:
    """The newest events of both, each once, the oldest first."""
    known = dict.fromkeys((*history, *events))
    return sorted(known, key=lambda event: event.at)[-MAX_WORKER_EVENTS:]


class WorkerRecord(Struct, kw_only=True):
    """One worker: bucket `pyoco_workers`, key `<worker_id>`."""

    worker_id: str
    instance_id: str
    state: WorkerState
    last_seen_at: Timestamp
    last_heartbeat_at: Timestamp
    tags: list[str]
    hidden: bool = False
    # Set by an operator: no new runs. It applies to the next worker of this id as well.
    paused: bool = False
    # Set by an operator: this instance finishes its runs, and ends.
    drain_requested_at: Timestamp | None = None
    current_run_id: str | None = None
    current_run_ids: list[str] = []
    last_run_id: str | None = None
    last_run_status: str | None = None
    last_run_started_at: Timestamp | None = None
    last_run_finished_at: Timestamp | None = None
    # When any of its runs last progressed: a heartbeat alone does not show that.
    last_progress_at: Timestamp | None = None
    stopped_at: Timestamp | None = None
    stop_reason: str | None = None
    slots: Count = 1
    slots_busy: Count = 0
    # Why one of its executors cannot be started; its slot takes no runs meanwhile.
    executor_error: str | None = None
    # The flows of its folder, or the first of them.
    flows: list[str] = []
    # All of them, with their descriptions. None: its flows are not known, or its version has no catalogue.
    catalogue: CatalogueReference | None = None
    version: str = ""
    pyoco_version: str = ""
    wheel_sync: WheelSyncState = msgspec.field(default_factory=WheelSyncState)
    # None and empty where a worker of an earlier version has written the record.
    host: WorkerHost | None = None
    usage: WorkerUsage | None = None
    history: list[WorkerEvent] = []

    def observed_state(
        self, *, disconnect_timeout_sec: float, now: float | None = None, lost: bool = False
    ) -> WorkerState:
        """A worker that is `lost` or without heartbeats is DISCONNECTED; a stopped one stays stopped."""
        if self.state is WorkerState.STOPPED_GRACEFUL:
            return self.state
        silent_sec = (time.time() if now is None else now) - self.last_seen_at
        return WorkerState.DISCONNECTED if lost or silent_sec > disconnect_timeout_sec else self.state

    @property
    def draining(self) -> bool:
        """Whether a drain was requested, and it has not ended."""
        return self.drain_requested_at is not None and self.state is not WorkerState.STOPPED_GRACEFUL


def snapshot_decoder(kind: type[T], *, whole: bool = True) -> Callable[[bytes], T]:
    """As `json_record`, of snapshots or of some of their fields."""
    decode = json_record(kind, whole=whole)

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
decode_job = json_record(Job)
decode_snapshot = snapshot_decoder(RunSnapshot)
decode_worker = json_record(WorkerRecord)
