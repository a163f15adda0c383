"""The table of endpoints: routing, scopes, 405, OpenAPI, client calls and the reference page follow from it.

The order is that of routing: the hot ones first, and `/runs/watch` before `/runs/{run_id}`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from msgspec import Struct

from pyoco_server.api import operation_types as ops
from pyoco_server.api import run_types as runs
from pyoco_server.api import schedule_types as schedules
from pyoco_server.api import signal_types as signals
from pyoco_server.api import wait_types as waits
from pyoco_server.auth.scopes import Scope
from pyoco_server.errors import WheelTooLarge
from pyoco_server.errors.error_table import Err, ErrorSpec
from pyoco_server.records.models import RunSnapshot
from pyoco_server.records.operation_models import BulkRecord, WheelEvent
from pyoco_server.runs.index.run_summary import RunItem

REVISION_HEADER: Final = "X-Pyoco-Revision"
JSON: Final = "application/json"
METRICS_TEXT: Final = "text/plain; version=0.0.4"
BYTES: Final = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Body:
    """What a request carries; in a form, the field `file` is a file."""

    # A record, or `Any` for any JSON.
    record: Any
    required: bool = True
    file: str = ""
    file_text: str = ""
    min_fields: int = 0


@dataclass(frozen=True, slots=True)
class Events:
    """A stream of server-sent events, and the records that are their data."""

    text: str
    records: tuple[type[Struct], ...]


@dataclass(frozen=True, eq=False)
class Endpoint:
    # Method and path.
    route: str
    # A key with any one of them may use it; none: it is public.
    scopes: tuple[Scope, ...]
    summary: str
    # A record, a list of records, a tuple of alternatives, or the JSON Schema of what is not JSON.
    response: Any = None
    errors: tuple[ErrorSpec, ...] = ()
    body: Body | None = None
    # Where it is None, FastAPI reads the query from the handler's parameters.
    query: type[Struct] | None = None
    events: Events | None = None
    # What a request creates that takes an `Idempotency-Key`.
    creates: str = ""
    # Whether a client may repeat it after a failure, also without a key; a GET always.
    repeatable: bool = False
    media_type: str = JSON
    # Of a successful response.
    status: int = 200
    ok_text: str = "OK"
    # Other statuses that come with the same content.
    also: Mapping[int, str] = field(default_factory=dict)
    request_headers: Mapping[str, str] = field(default_factory=dict)
    response_headers: Mapping[str, str] = field(default_factory=dict)
    head: bool = False
    in_schema: bool = True
    # A public endpoint whose response has more details with a valid key.
    optional_key: bool = False
    # It changes what all tenants use: with PYOCO_HTTP_OPERATOR_TENANT only for keys of that tenant.
    operators_only: bool = False

    @cached_property
    def method(self) -> str:
        return self.route.partition(" ")[0]

    @cached_property
    def path(self) -> str:
        return self.route.partition(" ")[2]

    @cached_property
    def tag(self) -> str:
        """The group of the reference that it belongs to."""
        first = self.path.split("/")[1]
        return _TAG_OF_PATH.get(first, first)

    @property
    def public(self) -> bool:
        return not self.scopes

    @property
    def scope_names(self) -> list[str]:
        return [scope.value for scope in self.scopes]

    def allows(self, scopes: frozenset[Scope]) -> bool:
        return self.public or Scope.ADMIN in scopes or not scopes.isdisjoint(self.scopes)


# The groups of the reference, in their order.
TAGS: Final = {
    "runs": "Submit, list, follow, cancel and rerun runs.",
    "schedules": "Runs that start at times.",
    "waits": "Questions of runs to people, and their answers.",
    "events": "Events, which all waiting runs receive.",
    "bulk": "One operation on many runs or dead letters.",
    "dlq": "Dead letters: runs that failed for good.",
    "workers": "Workers, and what they may do.",
    "wheels": "Code for the workers.",
    "system": "Health, metrics, and the rights of an API key.",
}
_TAG_OF_PATH: Final = {"resume": "waits", **dict.fromkeys(("health", "key", "metrics", "overview"), "system")}

PUBLIC: Final[tuple[Scope, ...]] = ()
ANY_KEY: Final = tuple(Scope)
SUBMIT: Final = (Scope.SUBMIT,)
READ: Final = (Scope.READ,)
OPERATE: Final = (Scope.OPERATE,)
SUBMIT_OR_OPERATE: Final = (Scope.SUBMIT, Scope.OPERATE)
# Operators may read what they operate on.
READ_OR_OPERATE: Final = (Scope.READ, Scope.OPERATE)
# A key of an approver needs `answer` alone; `operate` includes it.
ANSWER: Final = (Scope.ANSWER, Scope.OPERATE)
READ_WAITS: Final = (Scope.READ, Scope.ANSWER, Scope.OPERATE)
# Whoever may submit a run may have it submitted at times; an operator may also stop that for a while.
PAUSE: Final = (Scope.SUBMIT, Scope.OPERATE)
PREVIEW: Final = (Scope.SUBMIT, Scope.READ)
WORKERS: Final = (Scope.WORKERS,)
READ_WORKERS: Final = (Scope.READ, Scope.OPERATE, Scope.WORKERS)
WHEELS: Final = (Scope.WHEELS,)

_NATS = Err.NATS_UNAVAILABLE
_UNREADABLE = Err.RECORD_UNREADABLE
_SUBMIT_ERRORS = (Err.INVALID_REQUEST, Err.IDEMPOTENCY_CONFLICT, _UNREADABLE, Err.WORKFLOW_TOO_LARGE, _NATS)
_RUN_ERRORS = (Err.RUN_NOT_FOUND, _UNREADABLE, Err.INVALID_REQUEST, _NATS)
_LIST_ERRORS = (Err.INVALID_LIST_QUERY, _NATS, Err.INDEX_NOT_READY)
_ANSWER_ERRORS = (
    Err.NOT_ASSIGNED,
    _UNREADABLE,
    Err.WAIT_CONFLICT,
    Err.WAIT_EXPIRED,
    Err.PROPOSAL_CHANGED,
    Err.ANSWER_INVALID,
    Err.INVALID_REQUEST,
    _NATS,
    Err.ANSWERS_BUSY,
)
_WAIT_CHANGE_ERRORS = (
    Err.WAIT_NOT_FOUND,
    _UNREADABLE,
    Err.WAIT_CONFLICT,
    Err.WAIT_EXPIRED,
    Err.INVALID_REQUEST,
    _NATS,
)
_BULK_ERRORS = (
    Err.INVALID_LIST_QUERY,
    Err.INVALID_REQUEST,
    Err.BULK_REFUSED,
    Err.IDEMPOTENCY_CONFLICT,
    Err.BULK_NOT_FOUND,
    _UNREADABLE,
    _NATS,
    Err.INDEX_NOT_READY,
)
_LETTER_BULK_ERRORS = tuple(error for error in _BULK_ERRORS if error is not Err.INDEX_NOT_READY)
_SCHEDULE_ERRORS = (Err.SCHEDULE_NOT_FOUND, _UNREADABLE, Err.INVALID_REQUEST, _NATS)
_SCHEDULE_CHANGE_ERRORS = (*_SCHEDULE_ERRORS, Err.SCHEDULE_CONFLICT)
_SCHEDULE_START_ERRORS = (
    *_SCHEDULE_CHANGE_ERRORS,
    Err.SCHEDULE_BUSY,
    Err.SCHEDULE_FULL,
    Err.IDEMPOTENCY_CONFLICT,
)
_RANGE_NOT_SATISFIABLE: Final = replace(Err.INVALID_REQUEST, status=416)

SUBMIT_RUN = Endpoint(
    "POST /runs",
    SUBMIT,
    "Submit a run of a flow on the workers",
    runs.RunAccepted,
    _SUBMIT_ERRORS,
    Body(runs.RunSubmitRequest),
    creates="run",
)
SUBMIT_RUN_YAML = Endpoint(
    "POST /runs/yaml",
    SUBMIT,
    "Submit a flow.yaml as a run",
    runs.RunAccepted,
    _SUBMIT_ERRORS,
    Body(runs.RunSubmitYamlFields, file="workflow", file_text="A flow.yaml."),
    creates="run",
)
HEALTH = Endpoint(
    "GET /health",
    PUBLIC,
    "The health of the gateway, also without NATS; its details need a key where keys are required. "
    "With `ready=1` a 503 until it is fully ready.",
    ops.Health,
    (Err.INVALID_REQUEST,),
    optional_key=True,
    also={503: "Only with `ready=1`: not ready yet."},
    head=True,
)
LIST_RUNS = Endpoint(
    "GET /runs",
    READ,
    "The runs that match, an array; with `cursor`, `updated_after`, `paged` or `total` an object.",
    (list[RunItem], runs.RunPage, list[RunSnapshot], runs.SnapshotPage),
    _LIST_ERRORS,
    query=runs.RunListQuery,
    ok_text="The runs. An object with `cursor`, `updated_after`, `paged=true` or `total=true`, else an "
    "array; whole snapshots with `include`.",
    response_headers={REVISION_HEADER: "As of when this is: the `after` of `GET /runs/watch`."},
)
WATCH_RUNS = Endpoint(
    "GET /runs/watch",
    READ,
    "Changes of a list of runs, as server-sent events, with the filters of the list.",
    errors=_LIST_ERRORS,
    query=runs.RunListWatchQuery,
    events=Events(
        "Events `snapshot`, whose data is a `ListedRun`, and `removed`, an `UnlistedRun`; `heartbeat` and, "
        "last of all, `reset`: a `ListNote`. Their ids are positions; `reset` has none.",
        (runs.ListedRun, runs.UnlistedRun, runs.ListNote),
    ),
)
WATCH_RUN = Endpoint(
    "GET /runs/{run_id}/watch",
    READ,
    "The run's snapshots as server-sent events: the newest one at once, then each change, to its end.",
    errors=_RUN_ERRORS,
    events=Events(
        "Events `snapshot`, whose data is a `WatchedRun` and whose id is its revision; the last one has a "
        "terminal status. Events `heartbeat` in between, and `removed` at the end of a run that was "
        "deleted: a `RunNote`.",
        (runs.WatchedRun, runs.RunNote),
    ),
)
GET_RUN = Endpoint(
    "GET /runs/{run_id}",
    READ,
    "The latest snapshot of a run. `include=records` adds `task_records`.",
    runs.RunView,
    _RUN_ERRORS,
)
GET_TASKS = Endpoint(
    "GET /runs/{run_id}/tasks",
    READ,
    "The state of each task, and its record where it was kept.",
    runs.TasksView,
    (Err.RUN_NOT_FOUND, _UNREADABLE, _NATS),
)
GET_LOGS = Endpoint(
    "GET /runs/{run_id}/logs",
    READ,
    "The output of a run, from a line on; with `Accept: text/event-stream`, followed to its end.",
    runs.LogsView,
    _RUN_ERRORS,
    events=Events(
        "Each printed line as an event `line` whose data is one of the `lines` and whose id is the line's; "
        "at the run's end an event `end` whose data is a `LogEnd`.",
        (runs.LineView, runs.LogEnd),
    ),
)
CANCEL_RUN = Endpoint(
    "POST /runs/{run_id}/cancel",
    OPERATE,
    "Cancel a run. An ended run is returned unchanged; repeating the request changes nothing.",
    RunSnapshot,
    (*_RUN_ERRORS, Err.RUN_CONFLICT),
    Body(runs.CancelRequest, required=False),
    repeatable=True,
)
RERUN = Endpoint(
    "POST /runs/{run_id}/rerun",
    OPERATE,
    "Rerun an ended run as a new run: from the start, from what failed, or from a task.",
    runs.RerunAccepted,
    (*_RUN_ERRORS, Err.RUN_CONFLICT, Err.UNVERIFIED_RUN, Err.IDEMPOTENCY_CONFLICT, Err.WORKFLOW_TOO_LARGE),
    Body(runs.RerunRequest, required=False),
    creates="run",
)
EXPLAIN_RUN = Endpoint(
    "GET /runs/{run_id}/explain",
    READ,
    "Why the run is in its state, and what can be done.",
    runs.Explanation,
    (Err.RUN_NOT_FOUND, _UNREADABLE),
)
WATCH_WAITS = Endpoint(
    "GET /waits/watch",
    READ_WAITS,
    "The open waits, as server-sent events: first all of them, then each that opens or closes.",
    errors=_LIST_ERRORS,
    query=waits.WaitWatchQuery,
    events=Events(
        "Events `open`, whose data is an `OpenWaitsEvent` with all that is open; `opened` and `closed`, a "
        "`WaitChanged`; and `heartbeat`, an `InboxNote`. Their ids are positions for `Last-Event-ID`.",
        (waits.OpenWaitsEvent, waits.WaitChanged, waits.InboxNote),
    ),
)
LIST_WAITS = Endpoint(
    "GET /waits",
    READ_WAITS,
    "The waits that match; by default the open ones.",
    waits.WaitPage,
    _LIST_ERRORS,
    query=waits.WaitListQuery,
)
GET_WAIT = Endpoint(
    "GET /waits/{wait_id}",
    READ_WAITS,
    "One wait, open or not, with its question, its answer and its history.",
    waits.WaitView,
    (Err.WAIT_NOT_FOUND, _UNREADABLE, _NATS),
)
RESPOND = Endpoint(
    "POST /waits/{wait_id}/respond",
    ANSWER,
    "Answer a wait. The first answer is accepted; later ones get a 409 that names it.",
    waits.Responded,
    (Err.WAIT_NOT_FOUND, *_ANSWER_ERRORS),
    Body(waits.RespondRequest),
    repeatable=True,
)
WITHDRAW_WAIT = Endpoint(
    "POST /waits/{wait_id}/withdraw",
    OPERATE,
    "Close an open wait without an answer; its run fails with `human_withdrawn`. "
    "Repeating the request changes nothing.",
    waits.WaitView,
    _WAIT_CHANGE_ERRORS,
    Body(waits.WithdrawRequest),
    repeatable=True,
)
EXTEND_WAIT = Endpoint(
    "POST /waits/{wait_id}/extend",
    OPERATE,
    "Move the deadline of an open wait to a later time. Repeating the request changes nothing.",
    waits.WaitView,
    _WAIT_CHANGE_ERRORS,
    Body(waits.ExtendRequest),
    repeatable=True,
)
REASSIGN_WAIT = Endpoint(
    "POST /waits/{wait_id}/reassign",
    OPERATE,
    "Replace the assignees of an open wait. Repeating the request changes nothing.",
    waits.WaitView,
    _WAIT_CHANGE_ERRORS,
    Body(waits.ReassignRequest),
    repeatable=True,
)
RESUME = Endpoint(
    "POST /resume",
    ANSWER,
    "Answer the only open wait of a run; with several, answer one of them by its own id.",
    waits.Resumed,
    (Err.RUN_NOT_FOUND, *_ANSWER_ERRORS),
    Body(waits.ResumeRequest),
    repeatable=True,
)
RETRY_RUN = Endpoint(
    "POST /runs/{run_id}/retry",
    OPERATE,
    "Ask an expired or withdrawn question again; finished tasks are not executed again.",
    RunSnapshot,
    (Err.RUN_NOT_FOUND, Err.WAIT_CONFLICT, _UNREADABLE, Err.UNVERIFIED_RUN, Err.INVALID_REQUEST, _NATS),
    Body(waits.RetryRequest, required=False),
    repeatable=True,
)
LIST_SCHEDULES = Endpoint(
    "GET /schedules",
    READ,
    "The schedules that match, in the order of their ids.",
    schedules.SchedulePage,
    _LIST_ERRORS,
    query=schedules.ScheduleListQuery,
)
CREATE_SCHEDULE = Endpoint(
    "POST /schedules",
    SUBMIT,
    "Create a schedule: a flow, and the times at which it runs.",
    schedules.ScheduleView,
    (Err.SCHEDULE_CONFLICT, Err.IDEMPOTENCY_CONFLICT, Err.INVALID_REQUEST, Err.WORKFLOW_TOO_LARGE, _NATS),
    Body(schedules.ScheduleRequest),
    creates="schedule",
    status=201,
    ok_text="The schedule is stored.",
)
PREVIEW_SCHEDULE = Endpoint(
    "POST /schedules/preview",
    PREVIEW,
    "The next times of a spec; nothing is stored.",
    schedules.NextTimes,
    (Err.INVALID_REQUEST,),
    Body(schedules.PreviewRequest),
    repeatable=True,
)
GET_SCHEDULE = Endpoint(
    "GET /schedules/{schedule_id}",
    READ,
    "One schedule, with its next times and its last decisions.",
    schedules.ScheduleView,
    _SCHEDULE_ERRORS,
    query=schedules.TenantQuery,
)
PATCH_SCHEDULE = Endpoint(
    "PATCH /schedules/{schedule_id}",
    SUBMIT,
    "Change some fields of a schedule. What was due before the change is not started again.",
    schedules.ScheduleView,
    (*_SCHEDULE_CHANGE_ERRORS, Err.WORKFLOW_TOO_LARGE),
    Body(schedules.SchedulePatch, min_fields=1),
    schedules.TenantQuery,
)
# Not repeatable: the 404 of a second request would not say whether the first one has deleted it.
DELETE_SCHEDULE = Endpoint(
    "DELETE /schedules/{schedule_id}",
    SUBMIT,
    "Delete a schedule; its runs stay.",
    schedules.ScheduleDeleted,
    _SCHEDULE_CHANGE_ERRORS,
    query=schedules.DeleteScheduleQuery,
)
PAUSE_SCHEDULE = Endpoint(
    "POST /schedules/{schedule_id}/pause",
    PAUSE,
    "Pause a schedule: nothing starts until it is resumed. Repeating the request changes nothing.",
    schedules.ScheduleView,
    _SCHEDULE_CHANGE_ERRORS,
    Body(schedules.PauseRequest, required=False),
    schedules.TenantQuery,
    repeatable=True,
)
RESUME_SCHEDULE = Endpoint(
    "POST /schedules/{schedule_id}/resume",
    PAUSE,
    "Resume a paused schedule. What was due meanwhile is not started.",
    schedules.ScheduleView,
    _SCHEDULE_CHANGE_ERRORS,
    Body(schedules.PauseRequest, required=False),
    schedules.TenantQuery,
    repeatable=True,
)
TRIGGER_SCHEDULE = Endpoint(
    "POST /schedules/{schedule_id}/trigger",
    SUBMIT,
    "Start a run of the schedule now, also while it is paused; the next occurrence stays.",
    schedules.Triggered,
    _SCHEDULE_START_ERRORS,
    Body(schedules.TriggerRequest, required=False),
    schedules.TenantQuery,
    creates="run",
)
BACKFILL_SCHEDULE = Endpoint(
    "POST /schedules/{schedule_id}/backfill",
    SUBMIT,
    "Start the runs of a past period; with `dry_run`, only count them.",
    schedules.Backfilled,
    _SCHEDULE_START_ERRORS,
    Body(schedules.BackfillRequest),
    schedules.TenantQuery,
    creates="backfill",
)
LIST_BACKFILLS = Endpoint(
    "GET /schedules/{schedule_id}/backfills",
    READ,
    "The backfills of a schedule that are in progress, in the order of their requests.",
    schedules.BackfillList,
    _SCHEDULE_ERRORS,
    query=schedules.TenantQuery,
)
# Not repeatable, as the deletion of a schedule.
CANCEL_BACKFILL = Endpoint(
    "DELETE /schedules/{schedule_id}/backfills/{backfill_id}",
    PAUSE,
    "Cancel a backfill: it starts nothing more. The runs that it has started stay.",
    schedules.BackfillCancelled,
    (*_SCHEDULE_CHANGE_ERRORS, Err.BACKFILL_NOT_FOUND),
    query=schedules.TenantQuery,
)
NEXT_TIMES = Endpoint(
    "GET /schedules/{schedule_id}/next",
    READ,
    "The next times of a schedule, also while it is paused.",
    schedules.NextTimes,
    _SCHEDULE_ERRORS,
    query=schedules.NextQuery,
)
SEND_SIGNAL = Endpoint(
    "POST /runs/{run_id}/signals/{name}",
    SUBMIT_OR_OPERATE,
    "Send a signal to a run, with any JSON as its data. The next wait of the run for a signal of this name "
    "receives it; a signal that comes before its wait is kept.",
    signals.SignalAccepted,
    (*_RUN_ERRORS, Err.RUN_CONFLICT, Err.MAILBOX_FULL, Err.IDEMPOTENCY_CONFLICT),
    Body(Any, required=False),
    creates="signal",
    status=202,
)
LIST_SIGNALS = Endpoint(
    "GET /runs/{run_id}/signals",
    READ,
    "The signals that were sent to a run, in their order, and whether each was received.",
    signals.SignalList,
    _RUN_ERRORS,
)
SEND_EVENT = Endpoint(
    "POST /events",
    SUBMIT_OR_OPERATE,
    "Send an event to all runs of the tenant that wait for it. The same `id` is one event.",
    signals.EventAccepted,
    (Err.INVALID_REQUEST, _NATS),
    Body(signals.EventRequest),
    # The client gives each event an id.
    repeatable=True,
    status=202,
)
LIST_LETTERS = Endpoint(
    "GET /dlq",
    READ_OR_OPERATE,
    "The dead letters that match, newest first.",
    ops.LettersView,
    (Err.INVALID_LIST_QUERY, _NATS),
    query=ops.LetterPageQuery,
)
GET_LETTER = Endpoint(
    "GET /dlq/{seq}",
    READ_OR_OPERATE,
    "One dead letter.",
    ops.LetterView,
    (Err.DEAD_LETTER_NOT_FOUND, _NATS),
)
# Not repeatable: the 404 of a second request would not say whether the first one has deleted it.
DELETE_LETTER = Endpoint(
    "DELETE /dlq/{seq}",
    OPERATE,
    "Delete one dead letter; its run is kept.",
    ops.LetterDeleted,
    (Err.DEAD_LETTER_NOT_FOUND, _NATS),
)
REPLAY_LETTER = Endpoint(
    "POST /dlq/{seq}/replay",
    OPERATE,
    "Replay a dead letter as a new run.",
    ops.ReplayAccepted,
    (
        Err.DEAD_LETTER_NOT_FOUND,
        Err.NOT_REPLAYABLE,
        Err.UNVERIFIED_RUN,
        Err.IDEMPOTENCY_CONFLICT,
        _UNREADABLE,
        Err.INVALID_REQUEST,
        Err.WORKFLOW_TOO_LARGE,
        _NATS,
    ),
    Body(ops.ReplayRequest, required=False),
    creates="run",
)
BULK_CANCEL = Endpoint(
    "POST /bulk/cancel",
    OPERATE,
    "Cancel every run that matches the query, with the filters of `GET /runs`.",
    ops.BulkAnswer,
    _BULK_ERRORS,
    Body(ops.BulkCancelRequest),
    runs.RunFilterQuery,
    creates="bulk operation",
)
BULK_RERUN = Endpoint(
    "POST /bulk/rerun",
    OPERATE,
    "Rerun every run that matches the query, with the filters of `GET /runs`.",
    ops.BulkAnswer,
    _BULK_ERRORS,
    Body(ops.BulkRerunRequest),
    runs.RunFilterQuery,
    creates="bulk operation",
)
REPLAY_LETTERS = Endpoint(
    "POST /dlq/replay",
    OPERATE,
    "Replay every dead letter that matches the query, with the filters of `GET /dlq`.",
    ops.BulkAnswer,
    _LETTER_BULK_ERRORS,
    Body(ops.BulkReplayRequest),
    ops.LetterQuery,
    creates="bulk operation",
)
DELETE_LETTERS = Endpoint(
    "POST /dlq/delete",
    OPERATE,
    "Delete every dead letter that matches the query, with the filters of `GET /dlq`.",
    ops.BulkAnswer,
    _LETTER_BULK_ERRORS,
    Body(ops.BulkRequest),
    ops.LetterQuery,
    creates="bulk operation",
)
LIST_BULK = Endpoint("GET /bulk", READ_OR_OPERATE, "The newest bulk operations.", ops.BulkList, (_NATS,))
GET_BULK = Endpoint(
    "GET /bulk/{bulk_id}",
    READ_OR_OPERATE,
    "The progress of a bulk operation.",
    BulkRecord,
    (Err.BULK_NOT_FOUND, _UNREADABLE, _NATS),
)
STOP_BULK = Endpoint(
    "POST /bulk/{bulk_id}/stop",
    OPERATE,
    "Stop a bulk operation after the current items; changes already made are kept.",
    BulkRecord,
    (Err.BULK_NOT_FOUND, _UNREADABLE, _NATS),
    repeatable=True,
)
LIST_WORKERS = Endpoint(
    "GET /workers",
    READ_WORKERS,
    "The active workers, or all known ones.",
    list[ops.WorkerView],
    (Err.INVALID_WORKERS_REQUEST, _NATS),
    query=ops.WorkersQuery,
)
GET_WORKER = Endpoint(
    "GET /workers/{worker_id}",
    READ_WORKERS,
    "One worker, hidden or not.",
    ops.WorkerView,
    (Err.WORKER_NOT_FOUND, _UNREADABLE, _NATS),
)
PATCH_WORKER = Endpoint(
    "PATCH /workers/{worker_id}",
    WORKERS,
    "Hide or show a worker, pause or resume it, or drain it: it finishes its runs and exits. "
    "With an operator tenant, only for its keys.",
    ops.WorkerChanged,
    (Err.WORKER_NOT_FOUND, _UNREADABLE, Err.INVALID_WORKERS_REQUEST, _NATS),
    Body(ops.WorkerPatch, min_fields=1),
    repeatable=True,
    operators_only=True,
)
GET_KEY = Endpoint(
    "GET /key",
    ANY_KEY,
    "What the key of the request may do: its tenant, its scopes and the endpoints that it may use.",
    ops.KeyAccess,
)
METRICS = Endpoint(
    "GET /metrics",
    READ_OR_OPERATE,
    "All metrics in Prometheus' text format; 503 while NATS is unreachable.",
    {"type": "string", "description": "Prometheus' text format."},
    (_NATS,),
    media_type=METRICS_TEXT,
)
OVERVIEW = Endpoint(
    "GET /overview",
    READ,
    "Runs by status, recently ended runs, queues and workers.",
    ops.Overview,
    _LIST_ERRORS,
    query=ops.OverviewQuery,
)
LIST_WHEELS = Endpoint(
    "GET /wheels", WHEELS, "Every wheel, by package and version.", list[ops.WheelView], (_NATS,)
)
WHEEL_HISTORY = Endpoint(
    "GET /wheels/history",
    WHEELS,
    "The uploads and deletions that match, the newest first.",
    list[WheelEvent],
    (Err.INVALID_REQUEST, _NATS),
    query=ops.WheelHistoryQuery,
)
UPLOAD_WHEEL = Endpoint(
    "POST /wheels",
    WHEELS,
    "Upload a wheel; its version must be newer than every other of its package.",
    ops.WheelView,
    (Err.WHEEL_VERSION_REJECTED, WheelTooLarge.error, Err.INVALID_REQUEST, _NATS, Err.UPLOADS_BUSY),
    Body(ops.WheelFields, file="wheel", file_text="A wheel, under its own name."),
)
DOWNLOAD_WHEEL = Endpoint(
    "GET /wheels/{wheel_name}",
    WHEELS,
    "The wheel itself, or the requested range of it.",
    {"type": "string", "format": "binary"},
    (Err.WHEEL_NOT_FOUND, _RANGE_NOT_SATISFIABLE, _NATS),
    media_type=BYTES,
    also={206: "The requested range"},
    request_headers={"Range": "One range of bytes, such as `bytes=1048576-`."},
    head=True,
)
DELETE_WHEEL = Endpoint(
    "DELETE /wheels/{wheel_name}",
    WHEELS,
    "Delete a wheel from the registry; workers uninstall it.",
    ops.WheelDeleted,
    (Err.WHEEL_NOT_FOUND, _NATS),
)
OPENAPI = Endpoint("GET /openapi.json", PUBLIC, "This document.", head=True, in_schema=False)
DASHBOARD = Endpoint("GET /", PUBLIC, "The dashboard.", head=True, in_schema=False)
DOCS = Endpoint("GET /docs", PUBLIC, "The reference of the API.", head=True, in_schema=False)
DASHBOARD_FILE = Endpoint(
    "GET /static/{path:path}", PUBLIC, "A file of the dashboard.", head=True, in_schema=False
)

ENDPOINTS: Final = tuple(each for each in globals().copy().values() if isinstance(each, Endpoint))
