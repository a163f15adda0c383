"""What the overview and the list of unreadable records return."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pyoco_server.api.flow_types import FlowSparkline
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.unreadable_records import RecordKind

Window = Literal["1h", "24h", "7d"]


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
    # For how long the oldest pending run has been queued; null without one.
    oldest_pending_sec: float | None
    # Jobs in NATS: not delivered yet, and delivered but not acknowledged; and the age of the first of the
    # waiting ones, which may be that of a cancelled run.
    waiting: int
    in_work: int
    oldest_sec: float
    # Living workers that take runs of this tag now, and those that would if they were not paused or draining.
    workers: int
    workers_held: int


class LostRuns(Struct, kw_only=True):
    """Runs of a tag that no worker executes: theirs disconnected, and no other has taken them over yet."""

    worker_id: str
    tag: str
    # With the status RUNNING or CANCELLING.
    runs: int
    # When the worker was last heard of; null: it has no record any more.
    last_seen_at: float | None


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


class FiringAlerts(Struct, kw_only=True):
    """Alerts that fire and are not muted."""

    total: int
    # The ids of the first ten.
    first: list[str]


class Overview(Struct, kw_only=True):
    """Runs by status, how they ended within the window, queues, workers and firing alerts."""

    at: float
    window: Window
    # When the window begins, and how long each of its intervals is.
    since: float
    stretch_sec: float
    statuses: dict[RunStatus, int]
    ended: list[EndedRuns]
    failing: list[FailingFlow]
    queues: list[QueueView]
    # The hundred workers with the most of them.
    lost_runs: list[LostRuns]
    workers: WorkerCounts
    # Null: they could not be read.
    firing_alerts: FiringAlerts | None
    # For the operator only.
    unreadable: UnreadableList | UnsetType = UNSET
