"""Roll-ups of ended runs per 5 minutes, hour, 6 hours and day: what statistics are read from.

A row has the runs of one group (tenant, flow, tag, status) that ended in its bucket, with histograms of their
durations and times in the queue. Further rows are totals, of a flow over all tags and of a tag over all
flows: statistics of all flows would otherwise read a row for each pair of them. A run that was deleted stays
counted. A run that is written again counts once, as it is now.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from pyoco_server.records.runs.run_models import TERMINAL
from pyoco_server.runs.index.run_summary import RunItem
from pyoco_server.runs.index.sqlite.batch_statement import BatchStatement
from pyoco_server.runs.index.statistics.time_histogram import bin_of, count_in, histogram, packed, unpacked

FIVE_MINUTES: Final = 300
HOUR: Final = 3600
DAY: Final = 24 * HOUR
# Runs are written in batches of up to this many, so that a row is rewritten once for each batch.
_MOST_PENDING: Final = 8000
_MOST_KNOWN: Final = 20_000

_FIND: Final = BatchStatement(
    "WITH asked (period_sec, start, grp) AS (VALUES {}) "
    "SELECT period_sec, start, grp, runs, durations, queue_times FROM asked CROSS JOIN rollups "
    "USING (period_sec, start, grp)",
    "(?, ?, ?)",
)
_PUT: Final = BatchStatement("INSERT OR REPLACE INTO rollups VALUES {}", "(?, ?, ?, ?, ?, ?)")

_decode_item = msgspec.json.Decoder(RunItem).decode


@dataclass(frozen=True, slots=True)
class Window:
    """The time until now, in buckets. It begins with a whole bucket, and so may be longer by one."""

    name: str
    length_sec: int
    # There are rows of this length.
    bucket_sec: int

    def since(self, now: float) -> int:
        return int((now - self.length_sec) // self.bucket_sec) * self.bucket_sec

    def since_before(self, now: float) -> int:
        """When the window before it begins, which it is compared with."""
        return self.since(now) - self.length_sec

    def buckets(self, now: float) -> range:
        """The beginning of each."""
        return range(self.since(now), int(now) + 1, self.bucket_sec)

    def buckets_before(self, now: float) -> range:
        return range(self.since_before(now), self.since(now), self.bucket_sec)


LAST_HOUR: Final = Window("1h", HOUR, FIVE_MINUTES)
LAST_DAY: Final = Window("24h", DAY, HOUR)
LAST_WEEK: Final = Window("7d", 7 * DAY, 6 * HOUR)
LAST_MONTH: Final = Window("30d", 30 * DAY, DAY)
# The longest one is the last.
WINDOWS: Final = (LAST_HOUR, LAST_DAY, LAST_WEEK, LAST_MONTH)


class EndedRun(NamedTuple):
    """What is counted of a run; None: a time that it does not have."""

    # The start of the five minutes in which it ended.
    start: int
    group: int
    duration_bin: int | None
    queue_bin: int | None


class _Counts:
    __slots__ = ("durations", "queue_times", "runs")

    def __init__(self, runs: int = 0, durations: bytes = b"", queue_times: bytes = b"") -> None:
        self.runs = runs
        self.durations = unpacked(durations)
        self.queue_times = unpacked(queue_times)

    def __iadd__(self, other: "_Counts") -> "_Counts":
        self.runs += other.runs
        self.durations += other.durations
        self.queue_times += other.queue_times
        return self

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


class _Totals:
    """The two totals that a group is a part of; remembered, since the same groups come again."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._known: dict[int, tuple[int, int]] = {}

    def forget(self) -> None:
        self._known.clear()

    def of(self, group: int) -> tuple[int, int]:
        known = self._known.get(group)
        if known is None:
            [(tenant, flow, tag, status)] = self._db.execute(
                "SELECT tenant, flow, tag, status FROM groups WHERE id = ?", [group]
            )
            known = self._id(tenant, flow, "", status), self._id(tenant, "", tag, status)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[group] = known
        return known

    def _id(self, *key: str) -> int:
        self._db.execute(
            "INSERT OR IGNORE INTO totals SELECT coalesce(min(id), 0) - 1, ?, ?, ?, ? FROM totals", key
        )
        [(found,)] = self._db.execute(
            "SELECT id FROM totals WHERE tenant = ? AND flow = ? AND tag = ? AND status = ?", key
        )
        return int(found)


class _Rows:
    """The rows that some runs are counted in: read, changed and written together."""

    def __init__(self, db: sqlite3.Connection, totals: _Totals, now: float, runs: Iterable[EndedRun]) -> None:
        self._db = db
        self._totals = totals
        self._kept_since = _kept_since(now)
        places = {(run.start, run.group) for run in runs}
        self._rows = {key: _Counts() for place in places for key in self._keys(*place)}
        for period_sec, start, group, *stored in _FIND.query(db, list(self._rows)):
            self._rows[period_sec, start, group] = _Counts(*stored)

    def add(self, runs: Iterable[EndedRun]) -> None:
        by_place: defaultdict[tuple[int, int], _Counts] = defaultdict(_Counts)
        for run in runs:
            by_place[run.start, run.group].add(run)
        for place, counts in by_place.items():
            for key in self._keys(*place):
                self._rows[key] += counts

    def remove(self, runs: Iterable[EndedRun]) -> None:
        for run in runs:
            for key in self._keys(run.start, run.group):
                self._rows[key].remove(run)

    def write(self) -> None:
        rows = [
            (*key, each.runs, packed(each.durations), packed(each.queue_times))
            for key, each in self._rows.items()
        ]
        _PUT.execute(self._db, rows)

    def _keys(self, ended: int, group: int) -> Iterator[tuple[int, int, int]]:
        groups = (group, *self._totals.of(group))
        for period_sec, since in self._kept_since.items():
            start = ended // period_sec * period_sec
            if start >= since:
                for each in groups:
                    yield period_sec, start, each


class RollupChanges:
    """What a batch of writes changes."""

    def __init__(self, now: float, *, urgent: bool = False) -> None:
        self._counted_since = WINDOWS[-1].since_before(now)
        self.added: list[EndedRun] = []
        self.removed: list[EndedRun] = []
        # Whether it must be written at once, because it changes a run that is counted.
        self.is_urgent = urgent

    def replace(self, before: EndedRun | None, after: EndedRun | None) -> None:
        self.is_urgent |= before is not None
        if before == after:
            return
        if before is not None:
            self.removed.append(before)
        if after is not None:
            self.added.append(after)

    def note_deleted(self, deleted: EndedRun | None) -> None:
        """It stays counted: what is pending is written before it disappears from the index."""
        self.is_urgent |= deleted is not None

    def ended_run(self, group: int, run: RunItem) -> EndedRun | None:
        """None for a run that has not ended, or before all windows."""
        # An ended run is not written any more, so `updated_at` is its end, also for lists.
        if run.status not in TERMINAL or run.updated_at < self._counted_since:
            return None
        duration, queue_time = run.duration_sec, run.queue_sec
        return EndedRun(
            int(run.updated_at // FIVE_MINUTES) * FIVE_MINUTES,
            group,
            None if duration is None else bin_of(duration),
            None if queue_time is None else bin_of(queue_time),
        )


class FlowRollups:
    """Writes the roll-ups, for many runs at once: their rows are in `rollups` up to `held.rolled_up`.

    The runs after that revision are pending, in memory. They are read from the index after a restart, so
    that a run that is counted may only change in a transaction that writes them.
    """

    def __init__(self, db: sqlite3.Connection, clock: Callable[[], float]) -> None:
        self._db = db
        self._clock = clock
        self._totals = _Totals(db)
        # None: to be read from the index.
        self._pending: list[EndedRun] | None = None
        self._pruned_hour = 0

    @property
    def are_written(self) -> bool:
        return self._pending == []

    def reset(self) -> None:
        """The index was cleared, or a transaction has failed."""
        self._pending = None
        self._totals.forget()

    def changes(self, *, urgent: bool = False) -> RollupChanges:
        """For the next batch; called before it is written."""
        if self._pending is None:
            self._pending = self._read_pending()
        return RollupChanges(self._clock(), urgent=urgent)

    def apply(self, changes: RollupChanges, upto: int) -> None:
        """Within the transaction of the batch."""
        assert self._pending is not None, "its changes were collected"
        if changes.is_urgent or len(self._pending) + len(changes.added) >= _MOST_PENDING:
            now = self._clock()
            rows = _Rows(self._db, self._totals, now, (*self._pending, *changes.removed, *changes.added))
            rows.add(self._pending)
            rows.remove(changes.removed)
            rows.add(changes.added)
            rows.write()
            self._prune(now)
            self._db.execute("UPDATE held SET rolled_up = ?", [upto])
            self._pending = []
        else:
            self._pending += changes.added

    def _read_pending(self) -> list[EndedRun]:
        changes = RollupChanges(self._clock())
        rows = self._db.execute(
            "SELECT r.grp, d.item FROM held CROSS JOIN runs r ON r.revision > rolled_up AND r.state IS NULL"
            " CROSS JOIN docs d USING (doc)"
        )
        found = (changes.ended_run(group, _decode_item(item)) for group, item in rows)
        return [run for run in found if run is not None]

    def _prune(self, now: float) -> None:
        """Delete what no window needs any more, once an hour."""
        hour = int(now // HOUR)
        if hour != self._pruned_hour:
            self._db.executemany(
                "DELETE FROM rollups WHERE period_sec = ? AND start < ?", _kept_since(now).items()
            )
            self._pruned_hour = hour


def _kept_since(now: float) -> dict[int, int]:
    """The first row that is kept, by the length of its bucket: that of the window before."""
    return {window.bucket_sec: window.since_before(now) for window in WINDOWS}
