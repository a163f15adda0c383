"""Roll-ups of ended runs per hour and per day, written with the runs: what statistics of flows are read from.

A row has the runs of one group (tenant, flow, tag, status) that ended in its period, with histograms of their
durations and times in the queue. A run that was deleted stays counted. A run that is written again counts
once, as it is now.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyoco_server.records.models import TERMINAL
from pyoco_server.runs.index.batch_statement import BatchStatement
from pyoco_server.runs.index.run_summary import RunItem
from pyoco_server.runs.index.time_histogram import bin_of, count_in, histogram, packed, unpacked

HOUR: Final = 3600
DAY: Final = 24 * HOUR

_FIND: Final = BatchStatement(
    "WITH asked (period_sec, start, grp) AS (VALUES {}) "
    "SELECT period_sec, start, grp, runs, durations, queue_times FROM asked CROSS JOIN rollups "
    "USING (period_sec, start, grp)",
    "(?, ?, ?)",
)
_PUT: Final = BatchStatement("INSERT OR REPLACE INTO rollups VALUES {}", "(?, ?, ?, ?, ?, ?)")


@dataclass(frozen=True, slots=True)
class Window:
    """The time until now, in buckets. It begins with a whole bucket, and so may be longer by one."""

    name: str
    length_sec: int
    bucket_sec: int
    # Of the rows it is read from.
    period_sec: int

    def since(self, now: float) -> int:
        return int((now - self.length_sec) // self.bucket_sec) * self.bucket_sec

    def buckets(self, now: float) -> range:
        """The beginning of each."""
        return range(self.since(now), int(now) + 1, self.bucket_sec)


LAST_DAY: Final = Window("24h", DAY, HOUR, HOUR)
WINDOWS: Final = (
    LAST_DAY,
    Window("7d", 7 * DAY, 6 * HOUR, HOUR),
    Window("30d", 30 * DAY, DAY, DAY),
)


class EndedRun(NamedTuple):
    """What is counted of a run; None: a time that it does not have."""

    group: int
    at: float
    duration_bin: int | None
    queue_bin: int | None


def ended_run(group: int, run: RunItem) -> EndedRun | None:
    """None while it has not ended."""
    if run.status not in TERMINAL:
        return None
    duration, queue_time = run.duration_sec, run.queue_sec
    return EndedRun(
        group,
        # An ended run is not written any more, so this is its end, also for lists.
        run.updated_at,
        None if duration is None else bin_of(duration),
        None if queue_time is None else bin_of(queue_time),
    )


class _Counts:
    __slots__ = ("durations", "queue_times", "runs")

    def __init__(self, runs: int = 0, durations: bytes = b"", queue_times: bytes = b"") -> None:
        self.runs = runs
        self.durations = unpacked(durations)
        self.queue_times = unpacked(queue_times)

    def add(self, run: EndedRun) -> None:
        self.runs += 1
        if run.duration_bin is not None:
            self.durations += histogram(run.duration_bin)
        if run.queue_bin is not None:
            self.queue_times += histogram(run.queue_bin)

    def remove(self, run: EndedRun) -> None:
        # After a change of the system's clock the run may not have been counted.
        self.runs -= min(1, self.runs)
        if run.duration_bin is not None and count_in(self.durations, run.duration_bin):
            self.durations -= histogram(run.duration_bin)
        if run.queue_bin is not None and count_in(self.queue_times, run.queue_bin):
            self.queue_times -= histogram(run.queue_bin)


class RollupChanges:
    """What a batch changes, collected and then written together."""

    def __init__(self, db: sqlite3.Connection, now: float) -> None:
        self._db = db
        self._kept_since = _kept_since(now)
        self._removed: list[EndedRun] = []
        self._added: list[EndedRun] = []

    def replace(self, before: EndedRun | None, after: EndedRun | None) -> None:
        if before == after:
            return
        if before is not None:
            self._removed.append(before)
        if after is not None:
            self._added.append(after)

    def write(self) -> None:
        if not self._added and not self._removed:
            return
        keys = {key for run in (*self._added, *self._removed) for key in self._keys(run)}
        counts: defaultdict[tuple[int, int, int], _Counts] = defaultdict(_Counts)
        for period_sec, start, group, *stored in _FIND.query(self._db, list(keys)):
            counts[period_sec, start, group] = _Counts(*stored)
        for run in self._removed:
            for key in self._keys(run):
                counts[key].remove(run)
        for run in self._added:
            for key in self._keys(run):
                counts[key].add(run)
        rows = [
            (*key, each.runs, packed(each.durations), packed(each.queue_times))
            for key, each in counts.items()
        ]
        _PUT.execute(self._db, rows)

    def _keys(self, run: EndedRun) -> Iterator[tuple[int, int, int]]:
        for period_sec, since in self._kept_since.items():
            start = int(run.at // period_sec) * period_sec
            if start >= since:
                yield period_sec, start, run.group


def prune_rollups(db: sqlite3.Connection, now: float) -> None:
    """Delete what no window needs any more."""
    db.executemany("DELETE FROM rollups WHERE period_sec = ? AND start < ?", _kept_since(now).items())


def _kept_since(now: float) -> dict[int, int]:
    """By the length of the period."""
    return {
        period_sec: min(window.since(now) for window in WINDOWS if window.period_sec == period_sec)
        for period_sec in {window.period_sec for window in WINDOWS}
    }
