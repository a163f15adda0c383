"""Statistics of flows: how many runs ended and how, how long they took and waited, and the last failures.

They are read from the roll-ups, so that their cost does not depend on the number of runs.
"""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Final

import msgspec

from pyoco_server.records.runs.run_models import TERMINAL, RunStatus
from pyoco_server.runs.index.run_summary import RunItem
from pyoco_server.runs.index.search.filter_sql import Condition, where
from pyoco_server.runs.index.statistics.flow_rollups import LAST_DAY, LAST_MONTH, LAST_WEEK, Window
from pyoco_server.runs.index.statistics.time_histogram import quantiles_ms, unpacked

_LAST_FAILURES: Final = 10
HISTORY: Final = (LAST_DAY, LAST_WEEK, LAST_MONTH)
_ENDED: Final = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)
# A cancelled run says nothing about how long its flow takes.
TIMED: Final = frozenset({RunStatus.COMPLETED, RunStatus.FAILED})

# Start, group, runs, and the histograms of durations and of times in the queue.
Row = tuple[int, int, int, bytes, bytes]

_decode_item = msgspec.json.Decoder(RunItem).decode


@dataclass(frozen=True, slots=True)
class Quantiles:
    """In milliseconds, less than 4.5 % from the exact ones; None without runs."""

    p50: float | None = None
    p95: float | None = None

    @classmethod
    def of(cls, histogram: int) -> "Quantiles":
        return cls(*quantiles_ms(histogram, 0.5, 0.95))


@dataclass(frozen=True, slots=True)
class FlowStatistics:
    """Of one flow and one window."""

    window: str
    # The beginning of the window, and of its first bucket.
    since: int
    bucket_sec: int
    # Ended statuses: runs that ended in the window. Open ones: runs that are open now. Zeros are omitted.
    statuses: dict[str, int]
    # COMPLETED of COMPLETED and FAILED; None without either.
    success_rate: float | None
    # Of runs that have completed or failed, from their start to their end.
    duration_ms: Quantiles
    # Of ended runs that were started, from their submission (or their `start_at`) to their start.
    queue_ms: Quantiles
    # How runs ended, per bucket; the last one is not over.
    completed: list[int]
    failed: list[int]
    cancelled: list[int]


@dataclass(frozen=True, slots=True)
class FlowHistory:
    """One flow over all windows."""

    # By the name of the window: 24h, 7d and 30d.
    windows: dict[str, FlowStatistics]
    # Newest first; a deleted run is not among them.
    last_failures: list[RunItem]


@dataclass(frozen=True, slots=True)
class RunGroup:
    id: int
    flow: str
    tag: str
    status: str
    runs: int


@dataclass(slots=True)
class _Ended:
    """The runs of one group that ended in the window."""

    per_bucket: list[int]
    durations: int = 0
    queue_times: int = 0


@dataclass(slots=True)
class _Tally:
    """What is counted of one flow."""

    open: Counter[str] = field(default_factory=Counter)
    # By status, in each group.
    ended: list[tuple[str, _Ended]] = field(default_factory=list)

    def statistics(self, window: Window, buckets: range) -> FlowStatistics:
        per_bucket: dict[str, list[int]] = {status: [0] * len(buckets) for status in _ENDED}
        durations = queue_times = 0
        for status, ended in self.ended:
            per_bucket[status] = list(map(add, per_bucket[status], ended.per_bucket))
            durations += ended.durations if status in TIMED else 0
            queue_times += ended.queue_times
        counts = Counter({status: sum(each) for status, each in per_bucket.items()})
        completed, failed = counts[RunStatus.COMPLETED], counts[RunStatus.FAILED]
        return FlowStatistics(
            window=window.name,
            since=buckets.start,
            bucket_sec=buckets.step,
            statuses=dict(self.open + counts),
            success_rate=completed / (completed + failed) if completed or failed else None,
            duration_ms=Quantiles.of(durations),
            queue_ms=Quantiles.of(queue_times),
            completed=per_bucket[RunStatus.COMPLETED],
            failed=per_bucket[RunStatus.FAILED],
            cancelled=per_bucket[RunStatus.CANCELLED],
        )


def statistics_by_flow(
    db: sqlite3.Connection, now: float, *, tenant: str | None = None, tag: str | None = None
) -> dict[str, FlowStatistics]:
    """The last 24 hours of each flow that has runs, or had some then; of one tenant and tag, or of all."""
    groups = groups_of(db, tenant=tenant, tag=tag)
    return _statistics(db, LAST_DAY, now, groups, look_up=tenant is not None or tag is not None)


def history_of_flow(
    db: sqlite3.Connection, flow: str, now: float, *, tenant: str | None = None, tag: str | None = None
) -> FlowHistory | None:
    """None if it has no runs, and had none in any window."""
    groups = groups_of(db, tenant=tenant, tag=tag, flow=flow)
    windows = {}
    for window in HISTORY:
        found = _statistics(db, window, now, groups, look_up=True).get(flow)
        windows[window.name] = found or _Tally().statistics(window, window.buckets(now))
    if not any(group.runs for group in groups) and not any(each.statuses for each in windows.values()):
        return None
    failed = [group for group in groups if group.status == RunStatus.FAILED and group.runs]
    return FlowHistory(windows, _newest(db, failed, limit=_LAST_FAILURES))


def groups_of(
    db: sqlite3.Connection, *, tenant: str | None, tag: str | None, flow: str | None = None
) -> list[RunGroup]:
    """Also those without runs: theirs may have been deleted."""
    given = {"tenant": tenant, "tag": tag, "flow": flow}
    sql, values = where(
        Condition(f"{column} = ?", (value,)) for column, value in given.items() if value is not None
    )
    rows = db.execute(f"SELECT id, flow, tag, status, runs FROM groups WHERE {sql}", values)
    return [RunGroup(*row) for row in rows]


def _statistics(
    db: sqlite3.Connection, window: Window, now: float, groups: Sequence[RunGroup], *, look_up: bool
) -> dict[str, FlowStatistics]:
    """By flow. `look_up`: read the rows of these groups one by one, because there are many others."""
    buckets = window.buckets(now)
    ended = _ended(rows_in(db, buckets, groups if look_up else None), buckets)
    tallies: defaultdict[str, _Tally] = defaultdict(_Tally)
    for group in groups:
        if group.id in ended:
            tallies[group.flow].ended.append((group.status, ended[group.id]))
        elif group.runs:
            # Also a flow whose runs all ended before the window is listed.
            tally = tallies[group.flow]
            if group.status not in TERMINAL:
                tally.open[group.status] += group.runs
    return {flow: tally.statistics(window, buckets) for flow, tally in tallies.items()}


def _ended(rows: Iterable[Row], buckets: range) -> dict[int, _Ended]:
    """By group."""
    first, step = buckets.start, buckets.step
    found: dict[int, _Ended] = {}
    for start, group, runs, durations, queue_times in rows:
        counts = found.get(group)
        if counts is None:
            counts = found[group] = _Ended([0] * len(buckets))
        counts.per_bucket[(start - first) // step] += runs
        counts.durations += unpacked(durations)
        counts.queue_times += unpacked(queue_times)
    return found


def rows_in(db: sqlite3.Connection, buckets: range, groups: Sequence[RunGroup] | None) -> Iterable[Row]:
    """The rows of these buckets; of these groups or totals, looked up one by one, or of all groups."""
    columns = "r.start, r.grp, r.runs, r.durations, r.queue_times"
    if groups is None:
        return db.execute(
            f"SELECT {columns} FROM json_each(?) s CROSS JOIN rollups r"
            " ON r.period_sec = ? AND r.start = s.value AND r.grp > 0 AND r.runs > 0",
            [json.dumps([*buckets]), buckets.step],
        )
    ended = [group.id for group in groups if group.status in TERMINAL]
    # In this order, so that each row is found by its key.
    return db.execute(
        f"SELECT {columns} FROM json_each(?) s CROSS JOIN json_each(?) g CROSS JOIN rollups r"
        " ON r.period_sec = ? AND r.start = s.value AND r.grp = g.value AND r.runs > 0",
        [json.dumps([*buckets]), json.dumps(ended), buckets.step],
    )


def _newest(db: sqlite3.Connection, groups: Sequence[RunGroup], *, limit: int) -> list[RunItem]:
    found: list[tuple[float, int]] = []
    for group in groups:
        found += db.execute(
            "SELECT updated_at, doc FROM runs INDEXED BY grouped_by_updated_at"
            " WHERE grp = ? ORDER BY updated_at DESC LIMIT ?",
            [group.id, limit],
        )
    docs = [doc for _, doc in sorted(found, reverse=True)[:limit]]
    items = [db.execute("SELECT item FROM docs WHERE doc = ?", [doc]).fetchone() for doc in docs]
    return [_decode_item(item) for (item,) in items]
