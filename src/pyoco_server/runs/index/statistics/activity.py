"""How runs ended recently: counted per flow, status and time bucket; and what the conditions of alerts read.

An ended run is not written any more, so its `updated_at` is its end. Lists filter by the same time, and so
find what was counted here.
"""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from pyoco_server.records.runs.run_models import TERMINAL, RunStatus
from pyoco_server.runs.index.index_schema import run_id_of
from pyoco_server.runs.index.run_summary import RunItem
from pyoco_server.runs.index.search.filter_sql import Condition, among, where

# Looking up one time bucket of a group takes as long as grouping this many runs.
_GROUPED_MEANWHILE: Final = 5

# The statuses of a run that has a worker.
_HELD: Final = (RunStatus.RUNNING, RunStatus.CANCELLING)

_decode_item = msgspec.json.Decoder(RunItem).decode


@dataclass(frozen=True, slots=True)
class Span:
    """The time after a moment, divided into buckets of the same length."""

    after: float
    bucket_sec: float
    # The start of each bucket; `after` is within the first.
    starts: Sequence[float]

    @classmethod
    def until(cls, now: float, length_sec: float, bucket_sec: float) -> "Span":
        """Buckets are aligned, so that a run stays in the same one as time goes by."""
        after = now - length_sec
        first, last = int(after // bucket_sec), int(now // bucket_sec)
        return cls(after, bucket_sec, [number * bucket_sec for number in range(first, last + 1)])


@dataclass(slots=True)
class FlowActivity:
    flow_name: str
    ended: Counter[str] = field(default_factory=Counter)
    # By bucket of the span and status.
    by_bucket: Counter[tuple[int, str]] = field(default_factory=Counter)
    # The newest run that failed within the span.
    last_failed: RunItem | None = None

    @property
    def failures(self) -> int:
        return self.ended[RunStatus.FAILED]

    @property
    def failure_rate(self) -> float:
        return self.failures / self.ended.total()


@dataclass(frozen=True, slots=True)
class HeldRuns:
    """The runs of a tag that a worker has, as their snapshots say."""

    tag: str
    worker_id: str
    runs: int
    # Of any of them.
    last_write_at: float


@dataclass(slots=True)
class Activity:
    """The number of runs by status, and how they ended in each bucket of the span."""

    statuses: Counter[str] = field(default_factory=Counter)
    # The same by tag.
    by_tag: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    ended: list[Counter[str]] = field(default_factory=list)
    # Those with the most failures and those that fail most often; most failures first.
    failing: list[FlowActivity] = field(default_factory=list)
    # By tag and worker.
    held: list[HeldRuns] = field(default_factory=list)
    # When the oldest queued run of each tag was queued.
    queued_since: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Group:
    id: int
    flow: str
    tag: str
    status: str
    runs: int


def activity_in(db: sqlite3.Connection, tenant: str | None, span: Span, *, flows: int) -> Activity:
    """Of a tenant, or of all; with this many flows by failures, and as many by their rate of failures."""
    groups = _groups(db, tenant)
    found = Activity(ended=[Counter() for _ in span.starts])
    by_flow: dict[str, FlowActivity] = {}
    for group in groups.values():
        found.statuses[group.status] += group.runs
        found.by_tag[group.tag][group.status] += group.runs
    for group_id, bucket, runs in _counted(db, [g for g in groups.values() if g.status in TERMINAL], span):
        group = groups[group_id]
        found.ended[bucket][group.status] += runs
        flow = by_flow.setdefault(group.flow, FlowActivity(group.flow))
        flow.ended[group.status] += runs
        flow.by_bucket[bucket, group.status] += runs
    failed = sorted(
        (flow for flow in by_flow.values() if flow.failures),
        key=lambda flow: (-flow.failures, flow.flow_name),
    )
    # A stable sort: of the same rate, those with the most failures.
    often = {flow.flow_name for flow in sorted(failed, key=lambda flow: -flow.failure_rate)[:flows]}
    found.failing = [flow for rank, flow in enumerate(failed) if rank < flows or flow.flow_name in often]
    for flow in found.failing:
        own = [g for g in groups.values() if g.flow == flow.flow_name and g.status == RunStatus.FAILED]
        flow.last_failed = _newest(db, own)
    found.held = _held(db, [g for g in groups.values() if g.status in _HELD])
    found.queued_since = _queued_since(db, [g for g in groups.values() if g.status == RunStatus.PENDING])
    return found


def _groups(db: sqlite3.Connection, tenant: str | None) -> dict[int, _Group]:
    of_tenant = [] if tenant is None else [Condition("tenant = ?", (tenant,))]
    sql, values = where([Condition("runs > 0"), *of_tenant])
    rows = db.execute(f"SELECT id, flow, tag, status, runs FROM groups WHERE {sql}", values)
    return {row[0]: _Group(*row) for row in rows}


def _counted(db: sqlite3.Connection, groups: list[_Group], span: Span) -> Iterator[tuple[int, int, int]]:
    """Group, bucket and the number of runs that ended there."""
    grouped_at_once = _GROUPED_MEANWHILE * len(groups) * len(span.starts)
    [(runs,)] = db.execute(
        "SELECT count(*) FROM (SELECT 1 FROM runs INDEXED BY by_updated_at WHERE updated_at >= ? LIMIT ?)",
        [span.after, grouped_at_once + 1],
    )
    return _grouped(db, groups, span) if runs <= grouped_at_once else _looked_up(db, groups, span)


def _grouped(db: sqlite3.Connection, groups: list[_Group], span: Span) -> Iterator[tuple[int, int, int]]:
    own = among("grp", [group.id for group in groups])
    first, last = span.starts[0], span.starts[-1]
    yield from db.execute(
        "SELECT grp, CAST((updated_at - ?) / ? AS INTEGER), count(*) FROM runs"
        " INDEXED BY grouped_by_updated_at"
        f" WHERE {own.sql} AND updated_at >= ? AND updated_at < ? GROUP BY 1, 2",
        [first, span.bucket_sec, *own.values, span.after, last + span.bucket_sec],
    )


def _looked_up(db: sqlite3.Connection, groups: list[_Group], span: Span) -> Iterator[tuple[int, int, int]]:
    rows = db.execute(
        "SELECT g.value, s.key, (SELECT count(*) FROM runs INDEXED BY grouped_by_updated_at"
        " WHERE grp = g.value AND updated_at >= max(s.value, ?) AND updated_at < s.value + ?)"
        " FROM json_each(?) g CROSS JOIN json_each(?) s",
        [span.after, span.bucket_sec, json.dumps([group.id for group in groups]), json.dumps(span.starts)],
    )
    # In SQL the condition would count twice.
    yield from (row for row in rows if row[2])


def _held(db: sqlite3.Connection, groups: list[_Group]) -> list[HeldRuns]:
    own = among("r.grp", [group.id for group in groups])
    rows = db.execute(
        "SELECT g.tag, r.worker, count(*), max(r.updated_at) FROM runs r INDEXED BY grouped_by_updated_at"
        f" JOIN groups g ON g.id = r.grp WHERE {own.sql} AND r.worker IS NOT NULL GROUP BY 1, 2",
        own.values,
    )
    return [HeldRuns(*row) for row in rows]


def _newest(db: sqlite3.Connection, groups: list[_Group]) -> RunItem:
    newest = [
        db.execute(
            "SELECT updated_at, doc FROM runs INDEXED BY grouped_by_updated_at"
            " WHERE grp = ? ORDER BY updated_at DESC LIMIT 1",
            [group.id],
        ).fetchone()
        for group in groups
    ]
    [(item,)] = db.execute("SELECT item FROM docs WHERE doc = ?", [max(newest)[1]])
    return _decode_item(item)


# For the conditions of alerts, which are read every few seconds: each reads a few entries of an index, not
# the runs.


@dataclass(frozen=True, slots=True)
class FailedRuns:
    """The failed runs of some flows, each once."""

    # At most as many as were asked for.
    count: int
    # The newest first.
    run_ids: list[str]
    flows: list[str]
    # The revision up to which the index was read.
    upto: int


def failed_since(
    db: sqlite3.Connection,
    tenant: str | None,
    flows: str,
    *,
    since: float,
    after: int = 0,
    most: int,
    named: int,
) -> FailedRuns:
    """Failed runs of the flows that match, with revisions above `after`: at most `most`, and `named` ids."""
    [(upto,)] = db.execute("SELECT revision FROM held")
    # A bucket that was replaced begins with revision 1 again.
    after = 0 if upto < after else after
    found: list[tuple[float, bytes, str]] = []
    for group in _of_flows(db, tenant, flows, [RunStatus.FAILED]):
        rows = db.execute(
            "SELECT updated_at, run_id FROM runs INDEXED BY grouped_by_updated_at"
            " WHERE grp = ? AND updated_at >= ? AND revision > ? ORDER BY updated_at DESC LIMIT ?",
            [group.id, since, after, most],
        )
        found += [(updated_at, run_id, group.flow) for updated_at, run_id in rows]
    found.sort(reverse=True)
    names = list(dict.fromkeys(flow for _, _, flow in found))
    return FailedRuns(
        min(len(found), most), [run_id_of(run) for _, run, _ in found[:named]], names[:named], upto
    )


def ended_since(db: sqlite3.Connection, tenant: str | None, flows: str, since: float) -> Counter[str]:
    """How the runs of the flows that match have ended, by status."""
    ended: Counter[str] = Counter()
    for group in _of_flows(db, tenant, flows, [RunStatus.FAILED, RunStatus.COMPLETED]):
        [(runs,)] = db.execute(
            "SELECT count(*) FROM runs INDEXED BY grouped_by_updated_at WHERE grp = ? AND updated_at >= ?",
            [group.id, since],
        )
        ended[group.status] += runs
    return ended


@dataclass(frozen=True, slots=True)
class QueuedRunCount:
    count: int
    # Since when the oldest is in the queue; None: there is none.
    oldest_at: float | None


def queued_runs(db: sqlite3.Connection, tenant: str | None, tag: str) -> QueuedRunCount:
    """The queued runs of a tag; one that is queued is not written until it starts."""
    groups = [each for each in _groups(db, tenant).values() if each.status == RunStatus.PENDING]
    own = [group for group in groups if group.tag == tag]
    return QueuedRunCount(sum(group.runs for group in own), _queued_since(db, own).get(tag))


def _queued_since(db: sqlite3.Connection, groups: list[_Group]) -> dict[str, float]:
    """When the oldest queued run of each tag was queued."""
    since: dict[str, float] = {}
    for group in groups:
        [(oldest_at,)] = db.execute(
            "SELECT min(updated_at) FROM runs INDEXED BY grouped_by_updated_at WHERE grp = ?", [group.id]
        )
        if oldest_at is not None:
            since[group.tag] = min(oldest_at, since.get(group.tag, oldest_at))
    return since


def _of_flows(
    db: sqlite3.Connection, tenant: str | None, flows: str, statuses: Sequence[RunStatus]
) -> list[_Group]:
    """The groups of the flows that match, in which `*` stands for any text."""
    # Of fnmatch, only the star.
    pattern = flows.replace("[", "[[]").replace("?", "[?]")
    return [
        group
        for group in _groups(db, tenant).values()
        if group.status in statuses and fnmatchcase(group.flow, pattern)
    ]
