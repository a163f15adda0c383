"""Runs that ended in a period, beside those of the period before: in total, per bucket, per flow and per tag.

They are read from the roll-ups, so that their cost does not depend on the number of runs.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.runs.index.search.filter_sql import Condition, where
from pyoco_server.runs.index.statistics.flow_rollups import HOUR, WINDOWS, Window
from pyoco_server.runs.index.statistics.flow_statistics import TIMED, Quantiles, RunGroup, groups_of, rows_in
from pyoco_server.runs.index.statistics.time_histogram import unpacked

PERIODS: Final[Mapping[str, Window]] = {window.name: window for window in WINDOWS}
_STATUSES: Final = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)


@dataclass(frozen=True, slots=True)
class Figures:
    """Of the runs that ended within some time."""

    completed: int
    failed: int
    cancelled: int
    # Ended runs per hour; of a bucket that is not over, as if it were.
    per_hour: float
    # COMPLETED of COMPLETED and FAILED; None without either.
    success_rate: float | None
    # Of runs that have completed or failed, from their start to their end.
    duration_ms: Quantiles
    # Of ended runs that were started, from their submission (or their `start_at`) to their start.
    queue_ms: Quantiles


@dataclass(frozen=True, slots=True)
class PeriodComparison:
    current: Figures
    previous: Figures


@dataclass(frozen=True, slots=True)
class NamedComparison(PeriodComparison):
    """Of one flow or one tag."""

    name: str
    # How runs ended in each bucket of the current period.
    completed: list[int]
    failed: list[int]
    cancelled: list[int]


@dataclass(frozen=True, slots=True)
class PeriodStatistics:
    period: str
    # When the period begins; it ends now.
    since: int
    bucket_sec: int
    total: PeriodComparison
    # One of each bucket, oldest first; the last one of the current period is not over.
    current: list[Figures]
    previous: list[Figures]
    # Those with the most runs, also in the period before.
    flows: list[NamedComparison]
    tags: list[NamedComparison]
    # How many there are of each.
    flow_count: int
    tag_count: int


@dataclass(slots=True)
class _Ended:
    """Ended runs: their number by status, and the histograms of their times."""

    runs: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    durations: int = 0
    queue_times: int = 0

    def add(self, status: str, runs: int, durations: int, queue_times: int) -> None:
        self.runs[status] += runs
        self.durations += durations
        self.queue_times += queue_times

    @property
    def total(self) -> int:
        return sum(self.runs.values())

    def figures(self, seconds: float) -> Figures:
        completed, failed, cancelled = (self.runs.get(status, 0) for status in _STATUSES)
        return Figures(
            completed=completed,
            failed=failed,
            cancelled=cancelled,
            per_hour=self.total * HOUR / seconds,
            success_rate=completed / (completed + failed) if completed or failed else None,
            duration_ms=Quantiles.of(self.durations),
            queue_ms=Quantiles.of(self.queue_times),
        )


@dataclass(slots=True)
class _OfGroup:
    """The runs of one group in both periods."""

    group: RunGroup
    per_bucket: list[int]
    current: _Ended = field(default_factory=_Ended)
    previous: _Ended = field(default_factory=_Ended)


def period_statistics(
    db: sqlite3.Connection,
    period: str,
    now: float,
    *,
    most: int,
    tenant: str | None = None,
    flow: str | None = None,
    tag: str | None = None,
) -> PeriodStatistics:
    """Of one tenant, flow and tag, or of all; with at most this many flows and tags."""
    window = PERIODS[period]
    is_filtered = flow is not None or tag is not None
    groups = groups_of(db, tenant=tenant, tag=tag, flow=flow) if is_filtered else _totals(db, tenant)
    current, previous = window.buckets(now), window.buckets_before(now)
    both = range(previous.start, current.stop, current.step)
    buckets = {start: _Ended() for start in both}
    by_group = {group.id: _OfGroup(group, [0] * len(current)) for group in groups}
    for start, group_id, runs, durations, queue_times in rows_in(db, both, groups):
        counts = by_group[group_id]
        status = counts.group.status
        ended = (status, runs, unpacked(durations) if status in TIMED else 0, unpacked(queue_times))
        if counts.group.tag:
            # Otherwise it is a total over all tags, of runs that are counted for their tag.
            buckets[start].add(*ended)
        if start >= current.start:
            counts.current.add(*ended)
            counts.per_bucket[(start - current.start) // current.step] += runs
        else:
            counts.previous.add(*ended)

    found = [each for each in by_group.values() if each.current.runs or each.previous.runs]
    # The current period is longer than the one before, by the bucket that is not over.
    lengths = (now - current.start, window.length_sec)
    flows, tags = _by_name(found, lambda group: group.flow), _by_name(found, lambda group: group.tag)
    every_run = [each for each in found if each.group.tag]
    return PeriodStatistics(
        period=period,
        since=current.start,
        bucket_sec=current.step,
        total=_compared(every_run, lengths),
        current=[buckets[start].figures(current.step) for start in current],
        previous=[buckets[start].figures(current.step) for start in previous],
        flows=_busiest(flows, lengths, most),
        tags=_busiest(tags, lengths, most),
        flow_count=len(flows),
        tag_count=len(tags),
    )


def _totals(db: sqlite3.Connection, tenant: str | None) -> list[RunGroup]:
    """Those of each flow, which have no tag, and those of each tag, which have no flow."""
    sql, values = where([] if tenant is None else [Condition("tenant = ?", (tenant,))])
    rows = db.execute(f"SELECT id, flow, tag, status, 0 FROM totals WHERE {sql}", values)
    return [RunGroup(*row) for row in rows]


def _by_name(found: Iterable[_OfGroup], name_of: Callable[[RunGroup], str]) -> dict[str, list[_OfGroup]]:
    by_name: defaultdict[str, list[_OfGroup]] = defaultdict(list)
    for each in found:
        if name := name_of(each.group):
            by_name[name].append(each)
    return by_name


def _busiest(
    by_name: dict[str, list[_OfGroup]], lengths: tuple[float, float], most: int
) -> list[NamedComparison]:
    def order(name: str) -> tuple[int, int, str]:
        own = by_name[name]
        return -sum(each.current.total for each in own), -sum(each.previous.total for each in own), name

    names = sorted(by_name, key=order)[:most]
    return [_named(name, by_name[name], lengths) for name in names]


def _named(name: str, own: Sequence[_OfGroup], lengths: tuple[float, float]) -> NamedComparison:
    compared = _compared(own, lengths)
    completed, failed, cancelled = (_per_bucket(own, status) for status in _STATUSES)
    return NamedComparison(compared.current, compared.previous, name, completed, failed, cancelled)


def _per_bucket(own: Sequence[_OfGroup], status: RunStatus) -> list[int]:
    zeros = [0] * len(own[0].per_bucket)
    with_status = (each.per_bucket for each in own if each.group.status == status)
    return [sum(counts) for counts in zip(zeros, *with_status, strict=True)]


def _compared(found: Iterable[_OfGroup], lengths: tuple[float, float]) -> PeriodComparison:
    current, previous = _Ended(), _Ended()
    for each in found:
        status = each.group.status
        for total, own in ((current, each.current), (previous, each.previous)):
            total.add(status, own.total, own.durations, own.queue_times)
    return PeriodComparison(current.figures(lengths[0]), previous.figures(lengths[1]))
