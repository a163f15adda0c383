"""What the endpoints of schedules take and return."""

from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from pyoco_server.api.query_params import KnownRevision, NextCursor, PatchedRevision
from pyoco_server.api.run_types import Text, UnixTime
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.schedules.schedule_models import (
    DecisionOutcome,
    Moment,
    Overlap,
    ScheduleDecision,
    ScheduleId,
    ScheduleSpec,
    SpecInput,
    VisibleSchedule,
)
from pyoco_server.records.value_types import Labels, NewFlowName, RunId, RunTimeout, Tag

SCHEDULE_LIMIT_DEFAULT: Final = 50
SCHEDULE_LIMIT_MAX: Final = 200
NEXT_DEFAULT: Final = 10
NEXT_MAX: Final = 1000
# How many coming times the record of a schedule shows.
SHOWN_TIMES: Final = 5

_Every = Annotated[float, Meta(description="A fixed interval in seconds.")]
_Window = Annotated[
    float,
    Meta(
        description="How late an occurrence may still start, in seconds; null: 60 with `every_sec` under a "
        "minute, else 3600."
    ),
]
_Remaining = Annotated[int, Meta(description="How many more runs it starts; null: without limit.")]
_Note = Annotated[str, Meta(max_length=1000, description="For people.")]
_FlowYaml = Annotated[str, Meta(description="A flow.yaml to run; null: the workers' flow of this name.")]


class SpecPatch(Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields of the spec that change; the others stay."""

    cron: list[str] | UnsetType = UNSET
    every_sec: _Every | UnsetType | None = UNSET
    anchor: Moment | UnsetType | None = UNSET
    at: list[Moment] | UnsetType = UNSET
    timezone: str | UnsetType = UNSET
    start_at: Moment | UnsetType | None = UNSET
    end_at: Moment | UnsetType | None = UNSET
    jitter_sec: float | UnsetType = UNSET
    exclude: list[str] | UnsetType = UNSET


class ScheduleRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A new schedule: what it runs, and when."""

    schedule_id: ScheduleId
    flow_name: NewFlowName
    workflow_yaml: _FlowYaml | None = None
    params: dict[str, Any] = {}
    tag: Tag | None = None
    tags: Labels | None = None
    timeout_sec: RunTimeout | None = None
    spec: SpecInput
    overlap: Overlap = Overlap.SKIP
    catchup_window_sec: _Window | None = None
    pause_on_failure: Annotated[bool, Meta(description="Pause when one of its runs fails.")] = False
    remaining_runs: _Remaining | None = None
    paused: bool = False
    note: _Note = ""


class SchedulePatch(Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields that change; the others stay."""

    revision: PatchedRevision = UNSET
    flow_name: NewFlowName | UnsetType = UNSET
    workflow_yaml: _FlowYaml | UnsetType | None = UNSET
    params: dict[str, Any] | UnsetType = UNSET
    tag: Tag | UnsetType | None = UNSET
    tags: Labels | UnsetType | None = UNSET
    timeout_sec: RunTimeout | UnsetType | None = UNSET
    spec: SpecPatch | UnsetType = UNSET
    overlap: Overlap | UnsetType = UNSET
    catchup_window_sec: _Window | UnsetType | None = UNSET
    pause_on_failure: bool | UnsetType = UNSET
    remaining_runs: _Remaining | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET
    note: _Note | UnsetType = UNSET


class SpecView(ScheduleSpec, kw_only=True, omit_defaults=False, frozen=True):
    """The spec, with all of its fields; moments are unix seconds."""


class ScheduleView(VisibleSchedule, kw_only=True, omit_defaults=False):
    """A schedule, and its next occurrences."""

    spec: SpecView
    # ISO 8601, in its time zone; none while it is paused.
    next_times: list[str]
    # Why the gateway that answers cannot decide what is due, or does not know the next time; null: it can.
    problem: str | None = None


class TenantQuery(Struct, kw_only=True):
    """Whose schedule it is."""

    tenant: Annotated[
        Text | UnsetType,
        Meta(description="For operators: the tenant of the schedule, `=` for none. Default: the key's own."),
    ] = UNSET


class DeleteScheduleQuery(TenantQuery, kw_only=True):
    """Which revision is deleted."""

    revision: KnownRevision = UNSET


class NextQuery(TenantQuery, kw_only=True):
    """Which of the coming times."""

    n: Annotated[int, Meta(ge=1, le=NEXT_MAX, description="How many.")] = NEXT_DEFAULT
    after: Annotated[UnixTime | UnsetType, Meta(description="After this time. Default: now.")] = UNSET


class ScheduleListQuery(Struct, kw_only=True):
    """Which schedules are listed."""

    flow: Annotated[Text | UnsetType, Meta(description="Of this flow.")] = UNSET
    tag: Annotated[Text | UnsetType, Meta(description="With this tag, or one of these tags.")] = UNSET
    paused: Annotated[bool | UnsetType, Meta(description="Only paused ones, or only active ones.")] = UNSET
    q: Annotated[
        Text | UnsetType,
        Meta(description="Anywhere in id, flow name, labels (`tags`) or note; the case does not matter."),
    ] = UNSET
    limit: Annotated[int, Meta(ge=1, le=SCHEDULE_LIMIT_MAX, description="How many at most.")] = (
        SCHEDULE_LIMIT_DEFAULT
    )
    cursor: NextCursor = UNSET


class ScheduleItem(Struct, kw_only=True):
    """One schedule in a list: `GET /schedules/{schedule_id}` has its params and its decisions."""

    schedule_id: str
    tenant_id: str | None
    flow_name: str
    # Whether it runs a flow.yaml of its own.
    has_workflow_yaml: bool
    tag: str
    tags: list[str]
    spec: SpecView
    overlap: Overlap
    paused: bool
    note: str
    # When the next occurrence starts, with its jitter, unix seconds; None: there is none, or it is paused.
    next_at: float | None
    last_decision: ScheduleDecision | None
    # The newest run that it started, and its status as far as it is known.
    last_run_id: RunId | None
    last_run_status: RunStatus | None
    last_scheduled_for: float | None
    # Why the gateway that answers cannot decide what is due, or does not know the next time; null: it can.
    problem: str | None = None
    created_at: float
    updated_at: float
    revision: int


class SchedulePage(Struct, kw_only=True):
    """One page of a list of schedules, in the order of their ids."""

    items: list[ScheduleItem]
    # None on the last page.
    next_cursor: str | None
    # Of all pages.
    total: int


class PauseRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Why it is paused, or resumed."""

    note: _Note | UnsetType = UNSET


class TriggerRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """One run now, beside the occurrences."""

    params: Annotated[
        dict[str, Any] | UnsetType, Meta(description="In place of the schedule's params of these names.")
    ] = UNSET
    overlap: Annotated[Overlap | UnsetType, Meta(description="Default: that of the schedule.")] = UNSET


class Triggered(Struct, kw_only=True):
    """The run of a trigger."""

    schedule_id: str
    run_id: RunId
    # `started`; or `buffered`: it starts when the earlier run has ended, and is no run until then. A decision
    # of the schedule says if it is skipped instead.
    outcome: DecisionOutcome


class BackfillRequest(Struct, kw_only=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    """Runs for the occurrences of a past period."""

    from_: Moment
    to: Moment
    overlap: Annotated[
        Overlap,
        Meta(
            description="What happens while an earlier run of the schedule is open, of this backfill or not; "
            "default: one after the other."
        ),
    ] = Overlap.BUFFER_ALL
    dry_run: Annotated[bool, Meta(description="Count only; nothing is started.")] = False


class Backfilled(Struct, kw_only=True, rename={"from_": "from"}):
    """The occurrences of a backfill."""

    schedule_id: str
    dry_run: bool
    # Unix seconds: from included, to not.
    from_: float
    to: float
    # How many runs it starts, or would start.
    count: int
    # The first of them, ISO 8601 in the schedule's time zone.
    times: list[str]
    # To cancel it; None: a dry run.
    backfill_id: str | None = None


class BackfillItem(Struct, kw_only=True, rename={"from_": "from"}):
    """A backfill in progress."""

    backfill_id: str
    # Unix seconds: from included, to not.
    from_: float
    to: float
    overlap: Overlap
    requested_at: float
    # The API key; None without authentication.
    requested_by: str | None
    # How many occurrences the period had when it was requested; None: it is not known.
    count: int | None
    started: int
    # Not started and not skipped yet; those of a changed schedule are counted anew.
    remaining: int


class BackfillList(Struct, kw_only=True):
    """The backfills of a schedule that are in progress."""

    items: list[BackfillItem]


class BackfillCancelled(Struct, kw_only=True):
    """What a cancelled backfill has done."""

    schedule_id: str
    backfill_id: str
    # The runs that it had started, which stay.
    started: int
    # The occurrences that are skipped now.
    skipped: int


class PreviewRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A spec that is not stored."""

    spec: SpecInput
    after: Moment | None = None
    n: Annotated[int, Meta(ge=1, le=NEXT_MAX)] = NEXT_DEFAULT


class NextTimes(Struct, kw_only=True):
    """The next occurrences, without jitter."""

    # ISO 8601 with the offset of the time zone then.
    times: list[str]
    timezone: str
    # So many times are excluded that it was searched up to here only; later ones are perhaps there.
    searched_until: str | None = None


class ScheduleDeleted(Struct, kw_only=True):
    """The schedule is deleted; its runs stay."""

    schedule_id: str
    deleted: bool = True
