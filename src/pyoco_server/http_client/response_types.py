"""What the gateway answers, as a type checker and an editor see it; docs/http-api.md says what it means.

At run time these are plain dictionaries with whatever the gateway sent: a newer one may say more.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from pyoco_server.http_client.wait_response_types import OpenWait


class Accepted(TypedDict):
    """A run that is stored and queued."""

    run_id: str
    status: str
    # Of a rerun: the run that it repeats.
    origin_run_id: NotRequired[str]


class RunItem(TypedDict):
    """One run in a list."""

    run_id: str
    status: str
    updated_at: float
    flow_name: str
    tag: str
    tags: list[str]
    submitted_at: float | None
    start_time: float | None
    end_time: float | None
    worker_id: str | None
    attempt: int
    reason: str | None
    error: str | None
    origin_run_id: str | None
    cancel_requested_at: float | None
    workflow_yaml_sha256: str | None
    # Null where no API keys are asked for.
    tenant_id: str | None
    # In a list, but not in a snapshot.
    duration_sec: NotRequired[float | None]
    tasks_total: NotRequired[int]
    tasks_over: NotRequired[int]
    # Of a run that waits for people: what the first of its waits asks, and until when. How many they are is
    # `open_waits` of a list; a snapshot has the waits themselves under that name.
    wait_message: NotRequired[str | None]
    # A JSON Schema as a text; a list leaves a long one out.
    wait_schema: NotRequired[str | None]
    wait_deadline_at: NotRequired[float | None]


class Run(RunItem):
    """The newest snapshot of a run."""

    params: dict[str, Any]
    tasks: dict[str, str]
    heartbeat_at: float
    cancel_requested_by: str | None
    cancel_reason: str | None
    workflow_yaml_bytes: int | None
    timeout_sec: float | None
    rerun_mode: str | None
    rerun_task: str | None
    api_key_id: str | None
    # How often it has waited for people, and the waits without an answer. Not there before the first wait.
    generation: NotRequired[int]
    open_waits: NotRequired[list[OpenWait]]
    waiting_since: NotRequired[float | None]
    waited_sec: NotRequired[float]
    used_sec: NotRequired[float]
    # With `include=["records"]`.
    task_records: NotRequired[dict[str, dict[str, Any]]]
    task_records_truncated: bool
    # Of `get_run`.
    worker_alive: NotRequired[bool]
    worker_heartbeat_at: NotRequired[float | None]
    worker_tags: NotRequired[list[str] | None]


class RunPage(TypedDict):
    """A part of a list of runs."""

    items: list[RunItem]
    next_cursor: str | None
    # With `total=True`; not exact means at least that many.
    total: NotRequired[int]
    total_exact: NotRequired[bool]
    # What the list has seen: where a watch goes on.
    position: str | None


class RunEvent(TypedDict):
    """What happened to a run of a watched list. After a `reset` the list has to be read again."""

    event: Literal["snapshot", "removed", "reset"]
    # Where to go on from: the `after` of another watch.
    id: str | None
    ts: float
    run_id: NotRequired[str]
    snapshot: NotRequired[RunItem]


class Tasks(TypedDict):
    """The tasks of a run."""

    run_id: str
    flow_name: str
    status: str
    tasks: dict[str, str]
    task_records: dict[str, dict[str, Any]]
    task_records_truncated: bool


class LogLine(TypedDict):
    """One line that a run printed, or a note about lines that are missing."""

    id: str
    ts: float
    stream: str
    text: str
    task: str | None
    attempt: int


class LogPage(TypedDict):
    """A part of what a run printed."""

    lines: list[LogLine]
    next_after: str | None
    complete: bool


class Worker(TypedDict):
    """One worker, as the gateway sees it."""

    worker_id: str
    instance_id: str
    state: str
    hidden: bool
    paused: bool
    draining: bool
    last_seen_at: float
    last_heartbeat_at: float
    last_progress_at: float | None
    tags: list[str]
    slots: int
    slots_busy: int
    # Not of a gateway from before it was reported.
    executor_error: NotRequired[str | None]
    current_run_id: str | None
    current_run_ids: list[str]
    last_run_id: str | None
    last_run_status: str | None
    last_run_started_at: float | None
    last_run_finished_at: float | None
    stopped_at: float | None
    stop_reason: str | None
    version: str
    pyoco_version: str
    # Not of a gateway from before there were wheels.
    wheel_sync: NotRequired[WheelSync]


class WheelSync(TypedDict):
    """How the wheels of a worker are."""

    enabled: bool
    last_result: str
    error: str | None
    last_attempt_at: float | None
    last_success_at: float | None
    last_synced_at: float | None
    selected_count: int
    updated_count: int
    removed_count: int
    skipped_incompatible_count: int
    selected_wheels: list[str]
    updated_wheels: list[str]
    removed_wheels: list[str]
    skipped_incompatible: list[dict[str, Any]]
    installed_wheels: list[dict[str, Any]]


class WorkerChange(TypedDict):
    """What was asked of a worker."""

    worker_id: str
    hidden: bool
    paused: bool
    draining: bool
    state: str
    updated_at: float


class Action(TypedDict):
    """What can be done about a finding."""

    text: str
    command: str | None
    request: str | None


class NextStep(TypedDict):
    """What happens by itself, and what can be done."""

    by_itself: str
    actions: list[Action]


class Finding(TypedDict):
    """One reason why a run is where it is."""

    code: str
    message: str
    evidence: dict[str, Any]
    next: NextStep


class Explanation(TypedDict):
    """Why a run is where it is; the most important finding comes first."""

    run_id: str
    # None when NATS cannot be asked.
    status: str | None
    checked_at: float
    summary: str
    findings: list[Finding]


class Letter(TypedDict):
    """One dead letter: a run or a message that ended badly."""

    seq: int
    timestamp: float
    reason: str
    replayable: bool
    error: str | None
    run_id: str | None
    flow_name: str | None
    tag: str | None
    tags: list[str] | None
    worker_id: str | None
    num_delivered: int | None
    subject: str | None
    tenant_id: str | None


class LetterPage(TypedDict):
    """A part of the dead letters; an empty one is not the last one if it has a `next_cursor`."""

    items: list[Letter]
    next_cursor: str | None


class DeletedLetter(TypedDict):
    """A dead letter that is gone."""

    seq: int
    deleted: bool


class ReplayedLetter(TypedDict):
    """The new run of a dead letter."""

    seq: int
    run_id: str
    status: str
    origin_run_id: str
    # Whether the letter was removed; false also where that was asked for and could not be done.
    deleted: bool


class BulkError(TypedDict):
    """Why something was not done to one item."""

    item: str
    err_id: str | None
    message: str


class BulkOperation(TypedDict):
    """How far something that is done to many runs, or letters, has come."""

    bulk_id: str
    action: str
    state: str
    query: dict[str, list[str]]
    matched: int
    done: int
    skipped: int
    failed: int
    errors: list[BulkError]
    created_at: float
    updated_at: float
    started_at: float | None
    finished_at: float | None
    mode: str | None
    reason: str | None
    delete: bool
    tenant_id: str | None
    api_key_id: str | None


class BulkAnswer(TypedDict):
    """What matched, and either the token of a dry run or the operation that has begun."""

    action: str
    dry_run: bool
    matched: int
    sample: list[str]
    token: str | None
    operation: BulkOperation | None


class BulkList(TypedDict):
    """The newest operations."""

    items: list[BulkOperation]


class Wheel(TypedDict):
    """One wheel of the registry."""

    name: str
    size_bytes: int
    bucket: str
    nuid: str
    modified: float
    sha256_hex: str | None
    tags: list[str]


class DeletedWheel(TypedDict):
    """A wheel that is gone."""

    name: str
    deleted: bool


class WheelEvent(TypedDict):
    """An upload or a deletion of a wheel."""

    event_id: str
    occurred_at: float
    action: str
    wheel_name: str
    tags: list[str]
    size_bytes: int | None
    sha256_hex: str | None
    replace: bool | None
    actor: dict[str, str | None]
    source: dict[str, str | None]
