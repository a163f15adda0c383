"""The records of schedules: what to run, when, and what became of the last occurrences.

An occurrence is a moment at which the spec says to run, its nominal time. The jitter moves when it starts,
not its nominal time.
"""

import re
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.ids import NO_TENANT
from pyoco_server.records.moments import Seconds, Timestamp
from pyoco_server.records.value_types import TAG_PATTERN, Count, FlowName, RunId, Tag

SCHEDULE_ID_PATTERN: Final = TAG_PATTERN
SCHEDULE_ID_EXPECTED: Final = "expected 1 to 64 letters, digits, '_' or '-' (no '.')"
ScheduleId = Annotated[str, Meta(pattern=SCHEDULE_ID_PATTERN, description="1 to 64 letters, digits, _ or -.")]
_SCHEDULE_ID: Final = re.compile(SCHEDULE_ID_PATTERN)

# How many decisions a record keeps.
MAX_DECISIONS: Final = 20


def is_schedule_id(text: str) -> bool:
    return _SCHEDULE_ID.fullmatch(text) is not None


def schedule_key(tenant_id: str | None, schedule_id: str) -> str:
    """The key of its record in the bucket."""
    return f"{tenant_id or NO_TENANT}.{schedule_id}"


class Overlap(StrEnum):
    """What happens with an occurrence while an earlier run of the schedule is open."""

    SKIP = "skip"
    # Start when the earlier run has ended: one occurrence waits, or all of them.
    BUFFER_ONE = "buffer_one"
    BUFFER_ALL = "buffer_all"
    # End the earlier run, then start; `terminate_other` without a grace period.
    CANCEL_OTHER = "cancel_other"
    TERMINATE_OTHER = "terminate_other"
    ALLOW_ALL = "allow_all"

    @property
    def ends_others(self) -> bool:
        return self in (Overlap.CANCEL_OTHER, Overlap.TERMINATE_OTHER)


Moment = Annotated[
    str | float,
    Meta(description="ISO 8601, in the schedule's time zone if it has no offset; or Unix seconds."),
]


class SpecInput(Struct, kw_only=True, forbid_unknown_fields=True):
    """When to run, as a request gives it."""

    cron: list[str] = []
    every_sec: float | None = None
    anchor: Moment | None = None
    at: list[Moment] = []
    timezone: str = "UTC"
    start_at: Moment | None = None
    end_at: Moment | None = None
    jitter_sec: float = 0.0
    exclude: list[str] = []


class ScheduleSpec(Struct, kw_only=True, omit_defaults=True, frozen=True):
    """When to run: the union of `cron`, `every_sec` and `at`, without `exclude`."""

    # Five fields, or a name such as `@hourly`.
    cron: list[str] = []
    # Counted from `anchor`; without one, from 1970-01-01T00:00:00Z.
    every_sec: Seconds | None = None
    anchor: Timestamp | None = None
    at: list[Timestamp] = []
    # The IANA name.
    timezone: str = "UTC"
    # Occurrences are at or after `start_at`, and before `end_at`.
    start_at: Timestamp | None = None
    end_at: Timestamp | None = None
    # An occurrence starts up to so much later, but before the next one.
    jitter_sec: Seconds = 0.0
    # Cron expressions, and dates (`2026-12-24`) in the time zone.
    exclude: list[str] = []


class StartedBy(StrEnum):
    """What an occurrence comes from."""

    SCHEDULE = "schedule"
    TRIGGER = "trigger"
    BACKFILL = "backfill"


class DecisionOutcome(StrEnum):
    STARTED = "started"
    # It starts when the earlier run has ended.
    BUFFERED = "buffered"
    SKIPPED = "skipped"
    # It was older than the catch-up window when a gateway could decide.
    MISSED = "missed"
    # The run could not be stored.
    FAILED = "failed"


class SkipReason(StrEnum):
    OVERLAP = "overlap"
    BUFFER_FULL = "buffer_full"
    # A later start with cancel_other or terminate_other took its place in the buffer.
    REPLACED = "replaced"
    PAUSED = "paused"
    EDITED = "edited"
    REMAINING_RUNS = "remaining_runs"
    CATCHUP_WINDOW = "catchup_window"
    START_FAILED = "start_failed"
    BACKFILL_CANCELLED = "backfill_cancelled"


class ScheduleDecision(Struct, kw_only=True, omit_defaults=True):
    """What became of an occurrence, or of several in a row for the same reason."""

    at: Timestamp
    outcome: DecisionOutcome
    # Of several, the first; and the last is `until`.
    scheduled_for: Timestamp
    until: Timestamp | None = None
    count: Count = 1
    # Whether there were perhaps more than `count`.
    at_least: bool = False
    by: StartedBy = StartedBy.SCHEDULE
    backfill_id: str | None = None
    # The run; of one that was skipped, the earlier run that was open.
    run_id: RunId | None = None
    # Of a trigger that waited and was then skipped: the id that its response named. There is no such run.
    dropped_run_id: RunId | None = None
    # One of `SkipReason`, and the same in words.
    reason: str | None = None
    detail: str | None = None


class ScheduledStart(Struct, kw_only=True, omit_defaults=True):
    """A run that is decided: to be started now, or buffered."""

    run_id: RunId
    scheduled_for: Timestamp
    decided_at: Timestamp
    by: StartedBy = StartedBy.SCHEDULE
    backfill_id: str | None = None
    overlap: Overlap = Overlap.SKIP
    # Of a trigger: replace single params of the schedule.
    params: dict[str, Any] = {}


class StartedRun(Struct, kw_only=True, omit_defaults=True):
    """A run of the schedule, and the time it was started for."""

    run_id: RunId
    scheduled_for: Timestamp


class Backfill(Struct, kw_only=True, omit_defaults=True):
    """A backfill in progress: the occurrences of a past period, started by its overlap policy."""

    backfill_id: str
    from_at: Timestamp
    to_at: Timestamp
    # All occurrences up to here are decided.
    cursor: Timestamp
    requested_at: Timestamp
    # The API key; None without authentication.
    requested_by: str | None = None
    overlap: Overlap = Overlap.BUFFER_ALL
    # How many occurrences the period had then; None in a record of an earlier version.
    count: Count | None = None
    started: Count = 0


class AcceptedRequest(Struct, kw_only=True, omit_defaults=True):
    """A request with an Idempotency-Key, and what it was answered."""

    # The digests of the key and of the request.
    key: str
    digest: str
    at: Timestamp
    # Of a trigger.
    run_id: RunId | None = None
    outcome: DecisionOutcome | None = None
    # Of a backfill.
    count: Count = 0


class VisibleSchedule(Struct, kw_only=True, omit_defaults=True):
    """What callers see of a schedule."""

    schedule_id: ScheduleId
    # Of this schedule and no other, also not of an earlier one with this id: run ids follow from it.
    incarnation: str
    created_at: Timestamp
    # Of the last edit, and how many there were: what gateways write while they decide does not count.
    updated_at: Timestamp
    revision: Count = 1
    # The tenant that created it; the key of the last change.
    tenant_id: str | None = None
    api_key_id: str | None = None
    # What to run.
    flow_name: FlowName
    workflow_yaml: str | None = None
    params: dict[str, Any] = {}
    tag: Tag = "default"
    tags: list[str] = []
    timeout_sec: Seconds | None = None
    # When.
    spec: ScheduleSpec
    overlap: Overlap = Overlap.SKIP
    # None: by the spec (`default_window`).
    catchup_window_sec: Seconds | None = None
    pause_on_failure: bool = False
    # How many more it starts; None: no limit.
    remaining_runs: Count | None = None
    paused: bool = False
    # Since when; of a paused one.
    paused_at: Timestamp | None = None
    note: str = ""
    # All occurrences up to here are decided.
    cursor: Timestamp
    # Decided, and not yet known to be stored.
    starts: list[ScheduledStart] = []
    buffer: list[ScheduledStart] = []
    backfills: list[Backfill] = []
    # Started, and not known to have ended; the newest last.
    running: list[StartedRun] = []
    # The newest last.
    decisions: list[ScheduleDecision] = []
    # How many occurrences had which outcome.
    counts: dict[str, Count] = {}


class ScheduleRecord(VisibleSchedule, kw_only=True, omit_defaults=True):
    """One schedule: bucket `pyoco_schedules`, key `<tenant or =>.<schedule_id>`."""

    # The creation, triggers and backfills that may be repeated; the newest last.
    requests: list[AcceptedRequest] = []

    @property
    def key(self) -> str:
        return schedule_key(self.tenant_id, self.schedule_id)

    @property
    def window_sec(self) -> float:
        """How old an occurrence may be to start still."""
        return default_window(self.spec) if self.catchup_window_sec is None else self.catchup_window_sec


def default_window(spec: ScheduleSpec) -> float:
    """One minute for intervals below a minute, else one hour."""
    return 60.0 if spec.every_sec is not None and spec.every_sec < 60 else 3600.0


encode_schedule = msgspec.json.Encoder().encode
decode_schedule = record_decoder(ScheduleRecord)
