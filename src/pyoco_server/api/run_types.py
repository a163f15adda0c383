"""What the endpoints of runs take and return."""

from typing import Annotated, Any, Final, Literal, TypeVar

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from pyoco_server.records.moments import TEN_YEARS_SEC
from pyoco_server.records.runs.artifact_models import LeftOut
from pyoco_server.records.runs.causes import cause_of
from pyoco_server.records.runs.run_models import RerunMode, RunSnapshot, RunStatus, TaskStatus
from pyoco_server.records.value_types import Labels, NewFlowName, RunId, RunTimeout, Tag
from pyoco_server.records.workers.flow_models import SubmitWarning
from pyoco_server.runs.index.pagination import SortField
from pyoco_server.runs.index.run_summary import RunItem

RUN_LIMIT_MAX: Final = 200
RUN_LIMIT_DEFAULT: Final = 50
WATCH_MAX_SEC: Final = 600
LOG_LIMIT_MAX: Final = 5000
LOG_SEARCH_MAX: Final = 200

Text = Annotated[str, Meta(min_length=1, max_length=200)]
Cursor = Annotated[str, Meta(min_length=1, max_length=1000)]
UnixTime = Annotated[float, Meta(ge=0, description="In unix seconds.")]
WatchTimeout = Annotated[
    int, Meta(ge=1, le=WATCH_MAX_SEC, description="End the stream after so many seconds.")
]
RunOrder = Literal["desc", "asc"]
RunListInclude = Literal["full", "all", "params"]
RunListWatchInclude = Literal["params"]
RunInclude = Literal["records", "full", "all"]
LogStream = Literal["stdout", "stderr", "note"]
LogLimit = Annotated[int, Meta(ge=1, le=LOG_LIMIT_MAX)]


StartAt = Annotated[
    float | str,
    Meta(
        description="Not before this time: ISO 8601 with an offset, or unix seconds. Until then the run is "
        "SCHEDULED. A time in the past is at once; at most ten years ahead.",
        examples=["2027-01-31T09:00:00+09:00"],
    ),
]
DelaySec = Annotated[
    float,
    Meta(
        ge=0,
        le=TEN_YEARS_SEC,
        description="In place of `start_at`: so many seconds after the gateway has accepted it.",
    ),
]


class RunSubmitRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A run of a flow that the workers know."""

    flow_name: NewFlowName
    params: dict[str, Any] = {}
    tag: Tag | None = None
    tags: Labels | None = None
    timeout_sec: RunTimeout | None = None
    start_at: StartAt | None = None
    delay_sec: DelaySec | None = None


class RunSubmitYamlFields(Struct, kw_only=True, forbid_unknown_fields=True):
    """The text fields of a flow.yaml submission."""

    flow_name: NewFlowName
    tag: Tag | None = None
    # No None: a form has texts only, and "null" is no number.
    timeout_sec: RunTimeout | UnsetType = UNSET
    start_at: Annotated[str, Meta(description="As in the JSON of `POST /runs`.")] | UnsetType = UNSET
    delay_sec: DelaySec | UnsetType = UNSET


class SubmitQuery(Struct, kw_only=True):
    """How much is checked before a run is accepted."""

    strict: Annotated[
        bool,
        Meta(
            description="Refuse a flow that no live worker of the tag has, and params that do not match its "
            "schema. Without it the run is accepted, with `warnings`."
        ),
    ] = False


class RunAccepted(Struct, kw_only=True):
    """The run is stored, and queued (PENDING) or to be queued at its `start_at` (SCHEDULED)."""

    run_id: RunId
    status: RunStatus = RunStatus.PENDING
    # What `strict` would have refused.
    warnings: list[SubmitWarning] | UnsetType = UNSET


KeepAnswers = Annotated[
    bool, Meta(description="Use the answers of people to the same questions; ask only what has changed.")
]


class RerunRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """From where a run is repeated; `task` goes with the mode `task`, other `params` with `start`."""

    mode: RerunMode = RerunMode.START
    params: (
        Annotated[
            dict[str, Any],
            Meta(description="In place of all params of the origin; needs the scope `submit` too."),
        ]
        | None
    ) = None
    task: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    keep_answers: KeepAnswers = False
    start_at: StartAt | None = None
    delay_sec: DelaySec | None = None


class RerunAccepted(RunAccepted, kw_only=True):
    """The new run is stored, and queued or to be queued at its `start_at`."""

    origin_run_id: RunId
    # Whether its params differ from those of the origin; absent if none were given.
    params_changed: bool | UnsetType = UNSET


class CancelRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Why the run is to be cancelled, for people."""

    reason: Annotated[str, Meta(max_length=1000)] | None = None


SnapshotT = TypeVar("SnapshotT", bound=RunSnapshot)


def public_snapshot(snapshot: SnapshotT, *, records: bool) -> SnapshotT:
    """The stored snapshot as a response, changed in place: each has a cause, and an answer is no attempt."""
    snapshot.attempt = snapshot.shown_attempt
    snapshot.cause = cause_of(snapshot.cause, snapshot.origin_run_id)
    if not records:
        snapshot.task_records = UNSET
    return snapshot


class RunResult(Struct, kw_only=True):
    """The result of a completed run; `GET /runs/{run_id}/result` has the value whole."""

    # The task that returned it.
    task: str
    # Bytes are served as they are, and are base64 here.
    type: Literal["json", "bytes"]
    # How large it is as it is served.
    bytes: int
    # A small one.
    value: Any | UnsetType = UNSET
    # Of a larger one, the beginning of its JSON.
    preview: str | UnsetType = UNSET
    # Whether this is not the whole value.
    is_cut: bool = False
    # Why the whole value is stored nowhere; unset where it is.
    reason: str | UnsetType = UNSET


class RunView(RunSnapshot, kw_only=True):
    """The snapshot of a run, its result, and whether its worker is alive."""

    result: RunResult | UnsetType = UNSET

    worker_alive: bool | None = None
    worker_heartbeat_at: float | None = None
    worker_tags: list[str] | None = None


class TasksView(Struct, kw_only=True):
    """The tasks of a run."""

    run_id: RunId
    flow_name: str
    status: RunStatus
    tasks: dict[str, TaskStatus]
    task_records: dict[str, Raw]
    task_records_truncated: bool


class ArtifactView(Struct, kw_only=True):
    """A file of a run."""

    # A relative path, such as `plots/loss.png`.
    name: str
    bytes: int
    # Of its content, in hex; its ETag too.
    sha256: str
    # By its name.
    content_type: str
    # The task that has written it; None where several may have.
    task: str | None
    created_at: float


class ArtifactsView(Struct, kw_only=True):
    """The files of a run, by name."""

    run_id: RunId
    artifacts: list[ArtifactView]
    bytes: int
    # Files that are not stored, and why: the first 20, and how many in all.
    left_out: list[LeftOut]
    left_out_count: int


class ArtifactQuery(Struct, kw_only=True):
    disposition: Annotated[
        Literal["attachment", "inline"],
        Meta(
            description="`inline`: to be shown, if it is an image, or a text, which is sent as `text/plain`. "
            "Everything else is an attachment, and so are these without it."
        ),
    ] = "attachment"


class RunQuery(Struct, kw_only=True):
    """How much of a run is returned."""

    include: Annotated[
        list[RunInclude] | UnsetType,
        Meta(description="Anything here adds `task_records`; `full` and `all` also add all params."),
    ] = UNSET


class RunWatchQuery(Struct, kw_only=True):
    """From when on a run is watched, and how much of it is sent."""

    include: Annotated[
        list[RunInclude] | UnsetType, Meta(description="Anything here adds `task_records`.")
    ] = UNSET
    since: Annotated[
        Annotated[float, Meta(ge=0)] | UnsetType,
        Meta(description="Leave out a first snapshot that is no newer than this, in unix seconds."),
    ] = UNSET
    timeout_sec: WatchTimeout | UnsetType = UNSET


class LogQuery(Struct, kw_only=True):
    """Which lines of a log are returned."""

    task: Annotated[list[str] | UnsetType, Meta(description="Only lines of these tasks.")] = UNSET
    stream: Annotated[list[LogStream] | UnsetType, Meta(description="Only lines of these streams.")] = UNSET
    after: Annotated[str | UnsetType, Meta(description="Only lines after the one with this id.")] = UNSET
    before: Annotated[
        str | UnsetType,
        Meta(description="Only the last lines before the one with this id; not for following."),
    ] = UNSET
    around: Annotated[
        str | UnsetType,
        Meta(description="The line with this id, and as many before it as after it; not for following."),
    ] = UNSET
    limit: Annotated[
        LogLimit | UnsetType, Meta(description="How many lines at most, 1000 by default; not for following.")
    ] = UNSET
    tail: Annotated[
        LogLimit | UnsetType, Meta(description="Only the last lines, without `after` and `limit`.")
    ] = UNSET
    search: Annotated[
        str, Meta(max_length=LOG_SEARCH_MAX, description="Only lines with this text, in any case.")
    ] = ""
    follow: Annotated[bool, Meta(description="Return server-sent events until the run ends.")] = False


class RunFilterQuery(Struct, kw_only=True):
    """Which runs are listed, watched or changed."""

    status: Annotated[
        list[RunStatus] | UnsetType,
        Meta(description="Any of these; repeated or separated by commas, in upper or lower case."),
    ] = UNSET
    flow: Annotated[Text | UnsetType, Meta(description="The name of the flow.")] = UNSET
    tag: Annotated[Text | UnsetType, Meta(description="The run's tag, or one of its tags.")] = UNSET
    worker: Annotated[
        Text | UnsetType, Meta(description="The id of the worker that has it, or had it last.")
    ] = UNSET
    origin: Annotated[
        str | UnsetType, Meta(description="The run that it repeats.", extra_json_schema={"format": "uuid"})
    ] = UNSET
    cause: Annotated[
        Text | UnsetType,
        Meta(
            description="What has started it: `api`, `schedule`, `event`, `request`, `rerun` or `parent`, or "
            "one of them, as in `schedule:nightly`."
        ),
    ] = UNSET
    workflow_yaml_sha256: Annotated[
        Annotated[str, Meta(pattern="^[0-9A-Fa-f]{64}$")] | UnsetType, Meta(description="Of its flow.yaml.")
    ] = UNSET
    updated_after: UnixTime | UnsetType = UNSET
    updated_before: UnixTime | UnsetType = UNSET
    submitted_after: UnixTime | UnsetType = UNSET
    submitted_before: UnixTime | UnsetType = UNSET
    q: Annotated[
        Text | UnsetType,
        Meta(description="Anywhere in flow name, tags, error or params, or its id starts so (8 digits)."),
    ] = UNSET


class RunListQuery(RunFilterQuery, kw_only=True):
    """Which runs, in which order, and how much of each."""

    sort: Annotated[SortField, Meta(description="What the list is sorted by.")] = SortField.UPDATED_AT
    order: Annotated[RunOrder, Meta(description="`desc`: the newest or largest first.")] = "desc"
    limit: Annotated[int, Meta(ge=1, le=RUN_LIMIT_MAX, description="How many runs at most.")] = (
        RUN_LIMIT_DEFAULT
    )
    include: Annotated[
        list[RunListInclude] | UnsetType,
        Meta(
            description="`full`: return whole snapshots, with `task_records`. `params`: items with a "
            "`params_preview`."
        ),
    ] = UNSET
    cursor: Annotated[
        Cursor | UnsetType,
        Meta(description="The `next_cursor` of the page before; with the same filters, sort and order."),
    ] = UNSET
    paged: Annotated[bool, Meta(description="Return an object with `next_cursor`.")] = False
    total: Annotated[bool, Meta(description="Return an object that also says how many runs match.")] = False


class RunListWatchQuery(RunFilterQuery, kw_only=True):
    """Which runs are watched, and from when on."""

    after: Annotated[
        Annotated[str, Meta(pattern="^[0-9a-f]{8}-[0-9]{1,18}$")] | UnsetType,
        Meta(description="The `X-Pyoco-Revision` of a list: what changed after it. Default: from now on."),
    ] = UNSET
    include: Annotated[
        list[RunListWatchInclude] | UnsetType, Meta(description="Items with a `params_preview`.")
    ] = UNSET
    timeout_sec: WatchTimeout | UnsetType = UNSET


class RunPage(Struct, kw_only=True):
    """One page of a list of runs."""

    items: list[RunItem]
    # None on the last page.
    next_cursor: str | None
    # With `total=true`. Not exact: there are at least so many.
    total: int | UnsetType = UNSET
    total_exact: bool | UnsetType = UNSET


class SnapshotPage(Struct, kw_only=True):
    """One page of a list of runs, with whole snapshots."""

    items: list[RunSnapshot]
    next_cursor: str | None
    total: int | UnsetType = UNSET
    total_exact: bool | UnsetType = UNSET


class ListedRun(Struct, kw_only=True):
    """The data of an event `snapshot`: a run of the list that was created or changed, or now matches."""

    run_id: RunId
    snapshot: RunItem
    # When it was sent, unix seconds.
    ts: float


class UnlistedRun(Struct, kw_only=True):
    """The data of an event `removed`: a run that is no longer in the list."""

    run_id: RunId
    ts: float


class ListNote(Struct, kw_only=True):
    """The data of an event `heartbeat` or `reset`."""

    ts: float


class WatchedRun(Struct, kw_only=True):
    """The data of an event `snapshot`."""

    run_id: RunId
    snapshot: RunSnapshot
    # When it was sent, unix seconds.
    ts: float


class RunNote(Struct, kw_only=True):
    """The data of an event `heartbeat` or `removed`."""

    run_id: RunId
    ts: float


class LineView(Struct, kw_only=True):
    """One line that a run printed, or a note about lines that are missing."""

    id: str
    ts: float
    task: str | None
    # stdout, stderr, or note.
    stream: str
    text: str
    attempt: int


class PyocoLogEntry(Struct, kw_only=True):
    """One line in the form that pyoco's own client reads. `seq` increases."""

    seq: int
    task: str
    stream: str
    text: str
    timestamp: float


class LogsView(Struct, kw_only=True):
    """A page of a run's log. `next_after` is the `after` of the next page, `previous_before` the `before` of
    the previous one."""

    run_id: RunId
    run_status: RunStatus
    lines: list[LineView]
    next_after: str | None
    # The run has ended, and there are no lines after these.
    complete: bool
    # If `before` or `around` is given; null: these are the first lines of the log.
    previous_before: str | UnsetType | None = UNSET
    # For `pyoco runs logs`: up to 5000 lines, if none of `after`, `limit`, `stream` and `search` is given.
    logs: list[PyocoLogEntry] | UnsetType = UNSET


class LogEnd(Struct, kw_only=True):
    """The data of the last event of a followed log; null: the run was removed meanwhile."""

    status: RunStatus | None


class ActionView(Struct, kw_only=True):
    """What a person can do: a stable code, in words, as a command line, and as a request."""

    code: str
    text: str
    command: str | None
    request: str | None


class NextView(Struct, kw_only=True):
    """What happens by itself, and what can be done."""

    by_itself: str
    actions: list[ActionView]


class FindingView(Struct, kw_only=True):
    """One finding: a stable code, the message for people, and its evidence."""

    code: str
    message: str
    evidence: dict[str, Any]
    next: NextView


class Explanation(Struct, kw_only=True):
    """Why the run is in its state; the most important finding comes first."""

    run_id: RunId
    # None while NATS is not available.
    status: RunStatus | None
    checked_at: float
    summary: str
    findings: list[FindingView]
