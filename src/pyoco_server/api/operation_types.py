"""What the endpoints of dead letters, bulk operations, workers, wheels and the overview take and return."""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pyoco_server.api.flow_types import FlowSparkline
from pyoco_server.api.run_types import KeepAnswers, RerunAccepted
from pyoco_server.records.models import (
    RerunMode,
    RunId,
    RunStatus,
    Tag,
    WheelSyncState,
    WorkerEvent,
    WorkerHost,
    WorkerState,
    WorkerUsage,
)
from pyoco_server.records.operation_models import (
    LAST_SEQUENCE,
    MAX_BULK_ITEMS,
    BulkAction,
    BulkRecord,
    WheelAction,
)
from pyoco_server.records.unreadable_records import RecordKind

# One that is empty would match every letter, which is hardly intended.
_Reasons = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_-]+( *, *[A-Za-z0-9_-]+)*$(?!\n)",
        max_length=500,
        description="Any of these words, separated by commas.",
    ),
]
_Time = Annotated[float, Meta(ge=0, le=1e12)]
_Sequences = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{1,19}( *, *[0-9]{1,19}){0,499}$(?!\n)",
        description="The letters with these numbers, separated by commas.",
    ),
]
_LetterState = Annotated[
    Literal["open", "closed"],
    Meta(description="`closed`: a rerun of their run has completed; `open`: the others."),
]
_ONLY_TRUE: Final = Meta(
    description="Finish current runs, then exit. It cannot be undone.", extra_json_schema={"enum": [True]}
)

Window = Literal["1h", "24h", "7d"]


class LetterQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The filters of dead letters."""

    reason: _Reasons | None = None
    tag: Tag | None = None
    flow: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    run_id: RunId | None = None
    worker: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    since: _Time | None = None
    until: _Time | None = None
    q: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    seq: _Sequences | None = None
    state: _LetterState | None = None


class LetterPageQuery(LetterQuery, kw_only=True, forbid_unknown_fields=True):
    """The filters, and which page."""

    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    cursor: Annotated[int, Meta(ge=1, le=LAST_SEQUENCE, description="From `next_cursor`.")] | None = None


class LetterRerun(Struct, kw_only=True):
    """The rerun of a letter's run that has completed; if there is none, the one that changed last."""

    run_id: RunId
    status: RunStatus


class LetterView(Struct, kw_only=True):
    """A dead letter: a run or a message that ended badly."""

    seq: int
    timestamp: float
    reason: str
    error: str | None
    run_id: str | None
    flow_name: str | None
    tag: str | None
    tags: list[str] | None
    worker_id: str | None
    num_delivered: int | None
    subject: str | None
    tenant_id: str | None
    # Whether it names a run that could be repeated.
    replayable: bool
    # None: its run was not rerun, or the index of runs is being filled.
    rerun: LetterRerun | None
    # Whether that rerun has completed: there is nothing left to do.
    closed: bool


class LettersView(Struct, kw_only=True):
    """A page of dead letters, newest first; an empty one is not the last one if it has a `next_cursor`."""

    items: list[LetterView]
    next_cursor: str | None


class LetterDeleted(Struct, kw_only=True):
    """The dead letter is deleted."""

    seq: int
    deleted: bool = True


class ReplayRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """From where the run is repeated, and whether the letter is removed then."""

    mode: RerunMode = RerunMode.START
    delete: bool = False


class ReplayAccepted(RerunAccepted, kw_only=True):
    """The new run is stored and queued."""

    seq: int
    # Whether the letter was removed; false also where NATS failed to remove it.
    deleted: bool


class BulkRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Exactly one of these: count only; do it unless more match; do what a dry run has counted."""

    dry_run: bool = False
    expected_count: Annotated[int, Meta(ge=0, le=MAX_BULK_ITEMS)] | None = None
    token: Annotated[str, Meta(min_length=1, max_length=100)] | None = None


class BulkCancelRequest(BulkRequest, kw_only=True, forbid_unknown_fields=True):
    """Cancel the runs, for this reason."""

    reason: Annotated[str, Meta(max_length=1000)] | None = None


class BulkRerunRequest(BulkRequest, kw_only=True, forbid_unknown_fields=True):
    """Where the reruns start: `start` or `failed`."""

    mode: RerunMode = RerunMode.START
    keep_answers: KeepAnswers = False


class BulkReplayRequest(BulkRequest, kw_only=True, forbid_unknown_fields=True):
    """Replay the letters, and delete them with `delete`."""

    mode: RerunMode = RerunMode.START
    delete: bool = False


class BulkAnswer(Struct, kw_only=True):
    """How many match and some of them; after a dry run a token, else the operation that has started."""

    action: BulkAction
    dry_run: bool
    matched: int
    sample: list[str]
    token: str | None = None
    operation: BulkRecord | None = None


class BulkList(Struct, kw_only=True):
    """Bulk operations, newest first."""

    items: list[BulkRecord]


class WorkersQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which workers are listed."""

    scope: Annotated[
        Literal["active", "all"] | UnsetType,
        Meta(description="`active`: RUNNING and IDLE ones; the default, unless `state` is given."),
    ] = UNSET
    state: Annotated[WorkerState | UnsetType, Meta(description="Only workers in this state.")] = UNSET
    include_hidden: Annotated[bool, Meta(description="Hidden ones as well.")] = False
    limit: Annotated[int, Meta(ge=1, le=500, description="How many at most.")] = 100


class WorkerView(Struct, kw_only=True):
    """A worker, as the gateway sees it."""

    worker_id: str
    instance_id: str
    state: WorkerState
    hidden: bool
    # It takes no new runs.
    paused: bool
    # It finishes its runs and ends.
    draining: bool
    last_seen_at: float
    last_heartbeat_at: float
    # When any of its runs last made progress.
    last_progress_at: float | None
    tags: list[str]
    slots: int
    slots_busy: int
    # Why an executor cannot be started: its slot takes no runs.
    executor_error: str | None
    # The flows of its folder, at most 200 of them.
    flows: list[str]
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
    # The wheels that it has installed.
    wheel_sync: WheelSyncState
    # Null: it has not reported them (yet).
    host: WorkerHost | None
    usage: WorkerUsage | None
    # The newest events, the oldest of them first; only in `GET /workers/{worker_id}`.
    history: list[WorkerEvent]


class WorkerPatch(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a worker is asked to do; at least one of these."""

    hidden: Annotated[bool, Meta(description="Leave it out of lists.")] | UnsetType = UNSET
    paused: Annotated[bool, Meta(description="Take no new runs until it is `false`.")] | UnsetType = UNSET
    drain: Annotated[bool, _ONLY_TRUE] | UnsetType = UNSET


class WorkerSetup(Struct, kw_only=True):
    """How a worker is added to this installation."""

    # A line for a shell, with placeholders where a worker needs credentials of its own.
    command: str
    needs_credentials: bool
    # Whether its NATS address is one of the gateway's machine.
    local: bool


class WorkerChanged(Struct, kw_only=True):
    """What the worker is asked to do from now on, and the state it was in."""

    worker_id: str
    hidden: bool
    paused: bool
    draining: bool
    state: WorkerState
    updated_at: float


class WheelView(Struct, kw_only=True):
    """One wheel of the registry."""

    name: str
    size_bytes: int
    bucket: str
    # Another one for each upload: workers compare it.
    nuid: str
    modified: float
    sha256_hex: str | None
    # Which workers install it; none: all of them.
    tags: list[str]


class WheelDeleted(Struct, kw_only=True):
    """The wheel is deleted."""

    name: str
    deleted: bool = True


class WheelFields(Struct, kw_only=True, forbid_unknown_fields=True):
    """The text fields of an upload."""

    replace: Annotated[bool, Meta(description="Written to the history; the version decides.")] = True
    tags: Annotated[str, Meta(description="Which workers install it, separated by commas; all.")] = ""


class WheelHistoryQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which uploads and deletions are listed."""

    limit: Annotated[int, Meta(ge=1, le=500, description="How many at most.")] = 100
    wheel_name: Annotated[str | UnsetType, Meta(description="Only those of this wheel.")] = UNSET
    action: Annotated[WheelAction | UnsetType, Meta(description="Only uploads, or deletions.")] = UNSET


class OverviewQuery(Struct, kw_only=True):
    """The time window of the overview."""

    window: Annotated[Window, Meta(description="How far back ended runs are counted.")] = "24h"


class EndedRuns(Struct, kw_only=True):
    """How many runs ended within one interval."""

    # When it begins, in unix seconds.
    at: float
    completed: int
    failed: int
    cancelled: int


class FailingFlow(Struct, kw_only=True):
    flow_name: str
    completed: int
    failed: int
    cancelled: int
    # Its newest run that failed.
    last_run_id: str
    last_failed_at: float
    last_error: str | None
    # How its runs ended in each interval of the window.
    sparkline: FlowSparkline


class QueueView(Struct, kw_only=True):
    """The queue of one tag."""

    tag: str
    # Runs of the caller's tenant, or of all, with these statuses: as lists count them.
    pending: int
    running: int
    # Jobs in NATS: not delivered yet, and delivered but not acknowledged.
    waiting: int
    in_work: int
    oldest_sec: float
    # Living workers that take runs of this tag now, and those that would if they were not paused or draining.
    workers: int
    workers_held: int


class WorkerCounts(Struct, kw_only=True):
    alive: int
    paused: int
    draining: int
    # Without the hidden ones.
    disconnected: int
    slots: int
    slots_busy: int


class UnreadableView(Struct, kw_only=True):
    """A stored record that cannot be read."""

    kind: RecordKind
    # In its bucket; of a stream: what it belongs to, and its sequence.
    key: str
    revision: int
    problem: str
    found_at: float


class UnreadableList(Struct, kw_only=True):
    """The records that this gateway could not read."""

    total: int
    # The ones that were found last.
    newest: list[UnreadableView]


class Overview(Struct, kw_only=True):
    """How many runs there are by status, how they ended within the window, and which workers there are."""

    at: float
    window: Window
    # When the window begins, and how long each of its intervals is.
    since: float
    stretch_sec: float
    statuses: dict[RunStatus, int]
    ended: list[EndedRuns]
    failing: list[FailingFlow]
    queues: list[QueueView]
    workers: WorkerCounts
    # For the operator only.
    unreadable: UnreadableList | UnsetType = UNSET


class KeyAccess(Struct, kw_only=True):
    """What the key of the request may do; without authentication, everything."""

    key_id: str | None
    tenant_id: str | None
    name: str | None
    # With those that `admin`, or no scopes, include.
    scopes: list[str]
    groups: list[str]
    sees_all_tenants: bool
    # Method and path of each endpoint that it may use.
    endpoints: list[str]


class NatsHealth(Struct, kw_only=True):
    status: str
    ready: bool
    since: float | UnsetType = UNSET
    detail: str | UnsetType = UNSET


class SpaceLeft(Struct, kw_only=True):
    # `disk` of the embedded server, `account`, or the name of a stream.
    of: str
    free_bytes: int
    limit_bytes: int


class StorageHealth(Struct, kw_only=True):
    """Whether NATS can write. `low` is what is about to be full."""

    ready: bool
    # Why not: disk_full, store_stopped, not_stored or limit_reached.
    cause: str | UnsetType | None = UNSET
    detail: str | UnsetType = UNSET
    low: list[SpaceLeft] | UnsetType = UNSET


class IndexHealth(Struct, kw_only=True):
    # Also that of waits.
    ready: bool
    # Up to which revision of the runs bucket it was read, and at most how many writes are to come.
    revision: int | UnsetType = UNSET
    behind: int | UnsetType = UNSET
    # Of all tenants: not for a key of one of them.
    runs: int | UnsetType = UNSET


class Health(Struct, kw_only=True):
    """`status` is that of the gateway itself; `nats` must be ready to accept runs, `index` to list them.

    Where keys are required, a request without a valid one gets `status` and `ready` only.
    `nats` is not ready while `storage` is not: while NATS cannot write.
    """

    status: str = "ok"
    version: str | UnsetType = UNSET
    nats: NatsHealth
    storage: StorageHealth
    index: IndexHealth
    # By how many seconds the clock of the NATS server is ahead of this gateway's; absent until it is known.
    clock_offset_sec: float | UnsetType = UNSET
    # How many stored records this gateway could not read, by kind; the others are not affected.
    unreadable: dict[RecordKind, int] | UnsetType = UNSET
