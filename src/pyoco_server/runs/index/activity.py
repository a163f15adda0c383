"""How runs ended lately: counted per flow, status and stretch of time.

An ended run is not written any more, so that `updated_at` is its end; lists are filtered by the same time,
and so find what was counted here.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pyoco_server.records.models import TERMINAL, RunStatus
from pyoco_server.runs.index.conditions import Condition, among, where
from pyoco_server.runs.index.run_summary import RunItem

# Finding a stretch of a group takes as long as sorting so many runs into stretches.
_SORTED_MEANWHILE: Final = 5

_decode_item = msgspec.json.Decoder(RunItem).decode


@dataclass(frozen=True, slots=True)
class Span:
    """What was after a moment, in stretches of the same length."""

    after: float
    stretch_sec: float
    # When each stretch begins; the moment is within the first.
    begins: Sequence[float]

    @classmethod
    def until(cls, now: float, length_sec: float, stretch_sec: float) -> "Span":
        """From full stretch to full stretch, so that a run stays in its own as time goes by."""
        after = now - length_sec
        first, last = int(after // stretch_sec), int(now // stretch_sec)
        return cls(after, stretch_sec, [number * stretch_sec for number in range(first, last + 1)])


@dataclass(slots=True)
class FlowActivity:
    """How the runs of one flow ended within the span."""

    flow_name: str
    ended: Counter[str] = field(default_factory=Counter)
    # Of its newest run that failed within the span.
    last_failed: RunItem | None = None


@dataclass(slots=True)
class Activity:
    """How many runs there are by status, and how they ended in each stretch of the span."""

    statuses: Counter[str] = field(default_factory=Counter)
    tags: set[str] = field(default_factory=set)
    ended: list[Counter[str]] = field(default_factory=list)
    # Those that failed most often come first.
    failing: list[FlowActivity] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Group:
    id: int
    flow: str
    tag: str
    status: str
    runs: int


def activity_in(db: sqlite3.Connection, tenant: str | None, span: Span, *, flows: int) -> Activity:
    """Of a tenant, or of all; of at most so many failing flows."""
    groups = _groups(db, tenant)
    found = Activity(ended=[Counter() for _ in span.begins])
    by_flow: dict[str, FlowActivity] = {}
    for group in groups.values():
        found.statuses[group.status] += group.runs
        found.tags.add(group.tag)
    for group_id, stretch, runs in _counted(db, [g for g in groups.values() if g.status in TERMINAL], span):
        group = groups[group_id]
        found.ended[stretch][group.status] += runs
        flow = by_flow.setdefault(group.flow, FlowActivity(group.flow))
        flow.ended[group.status] += runs
    failed = [flow for flow in by_flow.values() if flow.ended[RunStatus.FAILED]]
    failed.sort(key=lambda flow: (-flow.ended[RunStatus.FAILED], flow.flow_name))
    found.failing = failed[:flows]
    for flow in found.failing:
        own = [g for g in groups.values() if g.flow == flow.flow_name and g.status == RunStatus.FAILED]
        flow.last_failed = _newest(db, own)
    return found


def _groups(db: sqlite3.Connection, tenant: str | None) -> dict[int, _Group]:
    of_tenant = [] if tenant is None else [Condition("tenant = ?", (tenant,))]
    sql, values = where([Condition("runs > 0"), *of_tenant])
    rows = db.execute(f"SELECT id, flow, tag, status, runs FROM groups WHERE {sql}", values)
    return {row[0]: _Group(*row) for row in rows}


def _counted(db: sqlite3.Connection, groups: list[_Group], span: Span) -> Iterator[tuple[int, int, int]]:
    """Group, stretch and how many runs ended there, where any did."""
    sorted_at_once = _SORTED_MEANWHILE * len(groups) * len(span.begins)
    [(runs,)] = db.execute(
        "SELECT count(*) FROM (SELECT 1 FROM runs INDEXED BY by_updated_at WHERE updated_at >= ? LIMIT ?)",
        [span.after, sorted_at_once + 1],
    )
    return _sorted(db, groups, span) if runs <= sorted_at_once else _found_one_by_one(db, groups, span)


def _sorted(db: sqlite3.Connection, groups: list[_Group], span: Span) -> Iterator[tuple[int, int, int]]:
    own = among("grp", [group.id for group in groups])
    first, last = span.begins[0], span.begins[-1]
    yield from db.execute(
        "SELECT grp, CAST((updated_at - ?) / ? AS INTEGER), count(*) FROM runs"
        " INDEXED BY grouped_by_updated_at"
        f" WHERE {own.sql} AND updated_at >= ? AND updated_at < ? GROUP BY 1, 2",
        [first, span.stretch_sec, *own.values, span.after, last + span.stretch_sec],
    )


def _found_one_by_one(
    db: sqlite3.Connection, groups: list[_Group], span: Span
) -> Iterator[tuple[int, int, int]]:
    rows = db.execute(
        "SELECT g.value, s.key, (SELECT count(*) FROM runs INDEXED BY grouped_by_updated_at"
        " WHERE grp = g.value AND updated_at >= max(s.value, ?) AND updated_at < s.value + ?)"
        " FROM json_each(?) g CROSS JOIN json_each(?) s",
        [span.after, span.stretch_sec, json.dumps([group.id for group in groups]), json.dumps(span.begins)],
    )
    # Not in SQL, which would count twice.
    yield from (row for row in rows if row[2])


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
