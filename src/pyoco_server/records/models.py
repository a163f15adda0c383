"""The records on the wire: what is stored in JetStream and what HTTP answers with.

Field names are the contract of spec 1, appendices D to G. Unknown fields are ignored when a record is
read, so that a newer gateway and an older worker can share a bucket.
"""

import os
import re
import time
from enum import StrEnum
from hashlib import blake2b
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, structs

# `$` alone also matches before a final newline, in Python; `(?!\n)` holds in OpenAPI's dialect as well.
TAG_PATTERN = r"^[A-Za-z0-9_-]{1,64}$(?!\n)"
WORKER_ID_PATTERN = r"^[A-Za-z0-9_-]{1,128}$(?!\n)"
FLOW_NAME_PATTERN = r"^[^\x00-\x1f\x7f]{1,200}$(?!\n)"
RUN_ID_PATTERN = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$(?!\n)"

# The same in words, for whoever got it wrong.
TAG_WANTED = "expected 1 to 64 letters, digits, '_' or '-' (no '.')"
WORKER_ID_WANTED = "expected 1 to 128 letters, digits, '_' or '-'"
FLOW_NAME_WANTED = "expected 1 to 200 printable characters"
# 30 days.
RUN_TIMEOUT_MAX_SEC = 2_592_000
RUN_TIMEOUT_WANTED = f"expected a number of seconds, more than 0 and at most {RUN_TIMEOUT_MAX_SEC} (30 days)"

Tag = Annotated[
    str, Meta(pattern=TAG_PATTERN, description="One token of a NATS subject: letters, digits, _ or -.")
]
Label = Annotated[str, Meta(min_length=1, max_length=100)]
Labels = Annotated[list[Label], Meta(max_length=50)]
FlowName = Annotated[str, Meta(pattern=FLOW_NAME_PATTERN, description="1 to 200 printable characters.")]
RunTimeout = Annotated[
    float, Meta(gt=0, le=RUN_TIMEOUT_MAX_SEC, description="How long the run may take, in seconds.")
]
RunId = Annotated[str, Meta(pattern=RUN_ID_PATTERN, description="A lower-case UUID.")]

_RUN_ID = re.compile(RUN_ID_PATTERN)


def is_run_id(text: str) -> bool:
    return _RUN_ID.fullmatch(text) is not None


def new_run_id() -> str:
    """A random UUID (version 4), without the class that would be made only to be written down."""
    text = os.urandom(16).hex()
    variant = "89ab"[int(text[16], 16) & 3]
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"


class RunStatus(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    WAITING_HUMAN = "WAITING_HUMAN"
    CANCELLING = "CANCELLING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def terminal(self) -> bool:
        return self in TERMINAL


TERMINAL = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})


class TaskStatus(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    # For a person.
    WAITING = "WAITING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    def when_run_ends(self, run: RunStatus, *, unanswered: bool = False) -> "TaskStatus":
        """The state of a task whose run ended without its executor, or while it waited.

        Of the tasks that wait, only the one whose question nobody answered in time (`unanswered`) has failed;
        the others are not needed any more.
        """
        if self is TaskStatus.WAITING:
            failed = unanswered and run is RunStatus.FAILED
            return TaskStatus.FAILED if failed else TaskStatus.CANCELLED
        begun = self is TaskStatus.RUNNING
        if run is RunStatus.CANCELLED and (begun or self is TaskStatus.PENDING):
            return TaskStatus.CANCELLED
        return TaskStatus.FAILED if begun else self


class Reason(StrEnum):
    """Why a run ended as it did, in a word that stays the same across versions."""

    EXECUTION_ERROR = "execution_error"
    FLOW_NOT_FOUND = "flow_not_found"
    INVALID_JOB = "invalid_job"
    EXECUTOR_CRASHED = "executor_crashed"
    DELIVERIES_EXHAUSTED = "deliveries_exhausted"
    TIMEOUT = "timeout"
    CANCEL_FORCED = "cancel_forced"
    HUMAN_TIMEOUT = "human_timeout"


class RerunMode(StrEnum):
    """From where a run is repeated. START executes everything; the others reuse the journal of the origin."""

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
    """What is published to `<work prefix>.<tag>`: all that a worker needs to execute a run."""

    run_id: RunId
    flow_name: FlowName
    tag: Tag
    submitted_at: float
    tags: list[str] = []
    params: dict[str, Any] = {}
    workflow_yaml: str | None = None
    workflow_yaml_sha256: str | None = None
    workflow_yaml_bytes: int | None = None
    # How long the run may take from its first start, over all attempts.
    timeout_sec: float | None = None
    # A rerun: the run it repeats, and from where.
    origin_run_id: str | None = None
    rerun_mode: RerunMode | None = None
    rerun_task: str | None = None
    # Whose run it is, and whose key submitted it; None where no keys are asked for.
    tenant_id: str | None = None
    api_key_id: str | None = None
    # How often the run had waited for people when this was published: it is of use until the next time.
    generation: int = 0


class OpenWait(Struct, kw_only=True):
    """A wait for a person that its run has not got an answer to; `GET /waits/{wait_id}` has the rest."""

    wait_id: str
    task: str
    name: str
    # Its first 300 characters; empty where there are more waits than a snapshot has room for.
    message: str
    deadline_at: float


class RunSnapshot(Struct, kw_only=True):
    """The latest state of a run: bucket `pyoco_runs`, key `<run_id>`."""

    run_id: RunId
    flow_name: str
    status: RunStatus
    params: dict[str, Any]
    tasks: dict[str, TaskStatus]
    heartbeat_at: float
    updated_at: float
    tag: str = ""
    tags: list[str] = []
    submitted_at: float | None = None
    worker_id: str | None = None
    # How many times a worker has begun this run.
    attempt: int = 0
    # (stream sequence, delivery number) of the queue message the owner holds: it orders owners.
    delivery: tuple[int, int] | None = None
    # Its owner has stopped and let it go in good order; not there otherwise.
    handed_back: bool | UnsetType = UNSET
    start_time: float | None = None
    end_time: float | None = None
    # A stable word beside the free text of `error`.
    reason: str | None = None
    error: str | None = None
    cancel_requested_at: float | None = None
    cancel_requested_by: str | None = None
    cancel_reason: str | None = None
    workflow_yaml_sha256: str | None = None
    workflow_yaml_bytes: int | None = None
    timeout_sec: float | None = None
    origin_run_id: str | None = None
    rerun_mode: RerunMode | None = None
    rerun_task: str | None = None
    # Whose run it is, and whose key submitted it; None where no keys are asked for.
    tenant_id: str | None = None
    api_key_id: str | None = None
    # How often it has waited for people, for how long in all, and since when it does now.
    generation: int = 0
    waited_sec: float | UnsetType = UNSET
    # How much of `timeout_sec` it had used at this write; not there without one, or before it has begun.
    used_sec: float | UnsetType = UNSET
    waiting_since: float | UnsetType | None = UNSET
    # The waits without an answer, and of the first of them what to show. Not there before the first wait.
    open_waits: list[OpenWait] | UnsetType = UNSET
    wait_message: str | UnsetType | None = UNSET
    wait_schema: str | UnsetType | None = UNSET
    wait_deadline_at: float | UnsetType | None = UNSET
    # Kept as encoded JSON: only a reader of records pays for decoding them.
    task_records: dict[str, Raw] | UnsetType = UNSET
    task_records_truncated: bool = False


def pending_snapshot(job: Job) -> RunSnapshot:
    """The first snapshot of a job; gateway and worker derive the same one from the same job."""
    return RunSnapshot(
        run_id=job.run_id,
        flow_name=job.flow_name,
        status=RunStatus.PENDING,
        params=job.params,
        tasks={},
        heartbeat_at=job.submitted_at,
        updated_at=job.submitted_at,
        tag=job.tag,
        tags=job.tags or [job.tag],
        submitted_at=job.submitted_at,
        workflow_yaml_sha256=job.workflow_yaml_sha256,
        workflow_yaml_bytes=job.workflow_yaml_bytes,
        timeout_sec=job.timeout_sec,
        origin_run_id=job.origin_run_id,
        rerun_mode=job.rerun_mode,
        rerun_task=job.rerun_task,
        tenant_id=job.tenant_id,
        api_key_id=job.api_key_id,
        task_records={},
    )


def job_of(snapshot: RunSnapshot, workflow_yaml: str | None) -> Job:
    """The job of a stored run, whose flow.yaml is kept elsewhere: what `pending_snapshot` was made from."""
    return Job(
        run_id=snapshot.run_id,
        flow_name=snapshot.flow_name,
        tag=snapshot.tag,
        submitted_at=snapshot.updated_at if snapshot.submitted_at is None else snapshot.submitted_at,
        tags=snapshot.tags,
        params=snapshot.params,
        workflow_yaml=workflow_yaml,
        workflow_yaml_sha256=snapshot.workflow_yaml_sha256,
        workflow_yaml_bytes=snapshot.workflow_yaml_bytes,
        timeout_sec=snapshot.timeout_sec,
        origin_run_id=snapshot.origin_run_id,
        rerun_mode=snapshot.rerun_mode,
        rerun_task=snapshot.rerun_task,
        tenant_id=snapshot.tenant_id,
        api_key_id=snapshot.api_key_id,
        generation=snapshot.generation,
    )


class JournalEntry(Struct, kw_only=True, omit_defaults=True):
    """What one finished task, or one step of it, left behind: enough not to execute it again.

    One message of `<journal prefix>.<run_id>`. Values are opaque to everybody but an executor.
    """

    # `task|loop path|occurrence`, and for a step of it also `|step|occurrence`.
    key: str
    task: str
    # The attempt that wrote it; of two entries with one key the later attempt's counts. 0: not this run, but
    # the one that it repeats.
    attempt: int
    started_at: float
    ended_at: float
    # Empty, without an error: what it returned is not stored or does not hold, and it is executed again.
    output: bytes = b""
    # What it changed in the flow's scratch, params and variables.
    changes: bytes = b""
    # Of a task that failed for good while its flow goes on without it.
    error: str | None = None
    # Its place among the run's entries, counted by the executors from 1 without a gap over all attempts.
    # 0: written by a version that did not count.
    number: int = 0
    # The number of the last entry that its attempt began with; it goes on counting from there.
    base: int = 0
    # Executed again, with the same result as the entry of this number: what was computed from that one holds.
    same_as: int = 0
    # Of the task and all that came before it in its flow; empty where that is not known.
    shape: bytes = b""
    # Of a result that is not stored: whether the next one is the same, and why it is not there.
    digest: bytes = b""
    why: str = ""

    @property
    def place(self) -> int:
        """Where it is in the order of what was computed from what."""
        return self.same_as or self.number

    @property
    def has_value(self) -> bool:
        return bool(self.output) or self.error is not None

    def without_value(self, why: str, digest: bytes = b"") -> "JournalEntry":
        """The same place in the journal for what is not stored, or does not hold any more."""
        return structs.replace(self, output=b"", changes=b"", error=None, digest=digest, why=why)


def value_digest(output: bytes, changes: bytes) -> bytes:
    return blake2b(output + changes, digest_size=16).digest()


class LogLine(Struct, kw_only=True, omit_defaults=True):
    """One line that a run printed, or a note about lines that were dropped."""

    ts: float
    # stdout, stderr, or note: a word of ours about lines that are missing.
    stream: str
    text: str
    # None when it cannot be told which of several tasks printed it.
    task: str | None = None
    attempt: int = 1


class DeadLetter(Struct, kw_only=True, omit_defaults=True):
    """What is published to `<dlq prefix>.<tag>`: why a run or a message ended badly."""

    timestamp: float
    reason: str
    error: str | None
    run_id: str | None = None
    flow_name: str | None = None
    tag: str | None = None
    tags: list[str] | None = None
    worker_id: str | None = None
    num_delivered: int | None = None
    subject: str | None = None
    # Of its run; None where no keys are asked for, or where nobody can tell.
    tenant_id: str | None = None


class InstalledWheel(Struct, kw_only=True):
    """A wheel that a worker has installed."""

    name: str
    package: str
    version: str
    nuid: str
    sha256_hex: str | None
    installed_at: float


class SkippedWheel(Struct, kw_only=True):
    """A wheel that is meant for a worker, and that its Python or its system cannot use."""

    name: str
    reason: str


class WheelSyncResult(StrEnum):
    DISABLED = "disabled"
    # Nothing was tried yet.
    IDLE = "idle"
    OK = "ok"
    ERROR = "error"


class WheelSyncState(Struct, kw_only=True):
    """How a worker's wheels are. Lists are cut after a hundred, counts are not."""

    enabled: bool = False
    last_result: WheelSyncResult = WheelSyncResult.DISABLED
    error: str | None = None
    last_attempt_at: float | None = None
    last_success_at: float | None = None
    # When anything was last installed or removed: `updated` and `removed` are of that time.
    last_synced_at: float | None = None
    selected_count: int = 0
    updated_count: int = 0
    removed_count: int = 0
    skipped_incompatible_count: int = 0
    selected_wheels: list[str] = []
    updated_wheels: list[str] = []
    removed_wheels: list[str] = []
    skipped_incompatible: list[SkippedWheel] = []
    installed_wheels: list[InstalledWheel] = []


class WorkerRecord(Struct, kw_only=True):
    """One worker: bucket `pyoco_workers`, key `<worker_id>`."""

    worker_id: str
    instance_id: str
    state: WorkerState
    last_seen_at: float
    last_heartbeat_at: float
    tags: list[str]
    hidden: bool = False
    # An operator's wish: no new runs until it is taken back. It holds for the next worker of this id as well.
    paused: bool = False
    # An operator's wish: this instance is to finish what runs, and to end.
    drain_requested_at: float | None = None
    current_run_id: str | None = None
    current_run_ids: list[str] = []
    last_run_id: str | None = None
    last_run_status: str | None = None
    last_run_started_at: float | None = None
    last_run_finished_at: float | None = None
    # When any of its runs last moved on: a heartbeat alone does not show that (pitfall 25).
    last_progress_at: float | None = None
    stopped_at: float | None = None
    stop_reason: str | None = None
    slots: int = 1
    slots_busy: int = 0
    # Why an executor of it cannot be started, as long as that is so: its slot takes no runs.
    executor_error: str | None = None
    version: str = ""
    pyoco_version: str = ""
    wheel_sync: WheelSyncState = msgspec.field(default_factory=WheelSyncState)

    def observed_state(self, *, disconnect_timeout_sec: float, now: float | None = None) -> WorkerState:
        """The state as a reader sees it: a silent worker is DISCONNECTED, a stopped one stays stopped."""
        silent_sec = (time.time() if now is None else now) - self.last_seen_at
        if self.state is not WorkerState.STOPPED_GRACEFUL and silent_sec > disconnect_timeout_sec:
            return WorkerState.DISCONNECTED
        return self.state

    @property
    def draining(self) -> bool:
        """Whether it was asked to end, and has not yet."""
        return self.drain_requested_at is not None and self.state is not WorkerState.STOPPED_GRACEFUL


encode = msgspec.json.Encoder().encode
decode_job = msgspec.json.Decoder(Job).decode
decode_snapshot = msgspec.json.Decoder(RunSnapshot).decode
decode_worker = msgspec.json.Decoder(WorkerRecord).decode
