"""All schedules in memory, each as a small row, and which of them is to be checked next.

The feed of the bucket keeps it up to date; a gateway also puts in what it has written itself.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from sys import intern
from typing import Final

from pyoco_server.aio.due_times import DueTimes
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.bucket_feed import BucketFeed
from pyoco_server.broker.jetstream.known_keys import KnownKeysReader
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, StreamState
from pyoco_server.broker.stores.schedules.schedule_store import StoredSchedule
from pyoco_server.errors import IndexNotReady, UnreadableRecord
from pyoco_server.records.decoding import unreadable
from pyoco_server.records.schedules.schedule_models import (
    DecisionOutcome,
    Overlap,
    ScheduleDecision,
    ScheduleRecord,
    ScheduleSpec,
    StartedRun,
    decode_schedule,
)
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.runs.lifecycle.tenancy import visible_to
from pyoco_server.schedules.calendar_times import SearchLimit
from pyoco_server.schedules.schedule_transitions import next_due_at, waits_for_runs

log = logging.getLogger(__name__)

# How long the gateway that decided a start has to complete it.
GRACE_SEC: Final = 2.0
# A schedule that waits for the end of a run is checked this often in any case.
_POLL_SEC: Final = 5.0


@dataclass(slots=True, kw_only=True)
class ScheduleRow:
    """A schedule in memory: what lists show, and when the runner has to check it."""

    key: str
    schedule_id: str
    tenant_id: str | None
    flow_name: str
    # Whether it has a flow.yaml of its own.
    workflow: bool
    tag: str
    tags: tuple[str, ...]
    spec: ScheduleSpec
    overlap: Overlap
    paused: bool
    note: str
    remaining_runs: int | None
    # When the next occurrence starts, with its jitter.
    next_at: float | None
    # How far the search got before its limit; None if it was completed.
    searched_until: float | None
    last: ScheduleDecision | None
    last_run: StartedRun | None
    counts: dict[str, int]
    created_at: float
    updated_at: float
    # Of the changes by people, and of the bucket.
    revision: int
    stored_revision: int
    # Whether it has starts that wait, and the runs whose end is something to decide.
    has_waiting: bool
    awaited: tuple[str, ...]
    # When a start that is decided is to be ensured by any gateway.
    ensure_at: float | None


def row_of(record: ScheduleRecord, stored_revision: int) -> ScheduleRow:
    decided = [start.decided_at for start in record.starts]
    next_at, searched_until = _next(record)
    return ScheduleRow(
        key=record.key,
        schedule_id=record.schedule_id,
        tenant_id=None if record.tenant_id is None else intern(record.tenant_id),
        flow_name=intern(record.flow_name),
        workflow=record.workflow_yaml is not None,
        tag=intern(record.tag),
        tags=tuple(map(intern, record.tags)),
        spec=record.spec,
        overlap=record.overlap,
        paused=record.paused,
        note=record.note,
        remaining_runs=record.remaining_runs,
        next_at=next_at,
        searched_until=searched_until,
        last=record.decisions[-1] if record.decisions else None,
        last_run=_last_run(record),
        counts=record.counts,
        created_at=record.created_at,
        updated_at=record.updated_at,
        revision=record.revision,
        stored_revision=stored_revision,
        has_waiting=bool(record.buffer or record.backfills),
        awaited=tuple(run.run_id for run in record.running) if waits_for_runs(record) else (),
        ensure_at=max(decided) + GRACE_SEC if decided else None,
    )


def _next(record: ScheduleRecord) -> tuple[float | None, float | None]:
    """When the next occurrence is due, or how far it was searched."""
    try:
        return next_due_at(record), None
    except SearchLimit as limit:
        return None, limit.reached


def _last_run(record: ScheduleRecord) -> StartedRun | None:
    for each in reversed(record.decisions):
        if each.outcome is DecisionOutcome.STARTED and each.run_id is not None:
            return StartedRun(run_id=each.run_id, scheduled_for=each.scheduled_for)
    return None


class ScheduleDirectory(KnownKeysReader):
    """The reader of the feed, and what lists and the runner ask."""

    def __init__(self, connection: Connection, *, clock: Callable[[], float]) -> None:
        bucket = connection.config.schedules_kv_bucket
        self._clock = clock
        self._unreadable = connection.unreadable
        super().__init__(bucket)
        self._rows: dict[str, ScheduleRow] = {}
        # When to check which.
        self._check_at = DueTimes()
        # Of each run whose end is something to decide, its schedule.
        self._awaited: dict[str, str] = {}
        self._on_changes: list[Callable[[], None]] = []
        self.ready = False
        self.feed = BucketFeed(connection, self, bucket=bucket, label="schedules", keys="*.*")

    async def start(self) -> None:
        await self.feed.start()

    async def close(self) -> None:
        await self.feed.close()

    def on_changes(self, callback: Callable[[], None]) -> None:
        """Register a callback: called by every `wake`."""
        self._on_changes.append(callback)

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: str) -> ScheduleRow | None:
        return self._rows.get(key)

    def rows(self, tenant: str | None) -> list[ScheduleRow]:
        """Those that a caller of this tenant (None: everybody) may see, by id."""
        visible = (row for row in self._rows.values() if visible_to(tenant, row.tenant_id))
        return sorted(visible, key=lambda row: (row.schedule_id, row.key))

    async def caught_up(self) -> None:
        """Wait until it has what was stored before the call; one that lags behind is used as it is."""
        if not await self.feed.caught_up_in_time() and not self.ready:
            raise IndexNotReady("the schedules are being read")

    # What the runner does

    async def put(self, stored: StoredSchedule) -> None:
        """This gateway has written or read this record."""
        # Exclusions make a search long.
        self._put(await asyncio.to_thread(row_of, stored.record, stored.revision))

    def remove(self, key: str) -> None:
        row = self._rows.pop(key, None)
        self._check_at.discard(key)
        if row is not None:
            self._forget_awaited(row)

    def take_due(self, now: float, limit: int) -> list[str]:
        """The keys of the schedules to look at; each is to be `put`, `postpone`d or `remove`d then."""
        return self._check_at.take_due(now, limit)

    def next_at(self) -> float | None:
        return self._check_at.next_at()

    def postpone(self, key: str, until: float) -> None:
        """Check it then; nothing is known to have changed."""
        if key in self._rows:
            self._check_at.schedule(key, until)

    def retry_in(self, key: str, seconds: float) -> None:
        """If it is due, look at it a little later: it could not be decided yet."""
        planned = self._check_at.time_of(key)
        if planned is not None and planned <= (now := self._clock()):
            self._check_at.schedule(key, now + seconds)

    def run_ended(self, run_id: str) -> None:
        """Check the schedule that waits for this run, if any."""
        key = self._awaited.get(run_id)
        if key is not None:
            self._check_at.schedule(key, self._clock())
            self.wake()

    def _put(self, row: ScheduleRow) -> None:
        before = self._rows.get(row.key)
        planned = self._check_at.time_of(row.key)
        if before is not None:
            known = before.stored_revision
            if known > row.stored_revision or (known == row.stored_revision and planned is not None):
                return
            self._forget_awaited(before)
        self._rows[row.key] = row
        self._awaited.update(dict.fromkeys(row.awaited, row.key))
        if planned is not None and planned <= self._clock():
            # A check that is due already may be for another reason.
            return
        if (at := self._check_time(row)) is None:
            self._check_at.discard(row.key)
        else:
            self._check_at.schedule(row.key, at)

    def _check_time(self, row: ScheduleRow) -> float | None:
        times = [row.next_at, row.searched_until, row.ensure_at]
        if row.awaited or row.has_waiting:
            times.append(self._clock() + (_POLL_SEC if row.awaited else 0.0))
        return min((at for at in times if at is not None), default=None)

    def _forget_awaited(self, row: ScheduleRow) -> None:
        for run_id in row.awaited:
            self._awaited.pop(run_id, None)

    def wake(self) -> None:
        """There may be something to check earlier."""
        for callback in self._on_changes:
            callback()

    # What the feed asks

    async def begin(self, created: str) -> None:
        self.ready = False
        self._unreadable.clear(RecordKind.SCHEDULE)
        self._known.begin(created)
        for key in list(self._rows):
            self.remove(key)

    async def take(self, batch: list[StreamMessage]) -> None:
        # The times of a thousand cron expressions take a tenth of a second.
        found = await asyncio.to_thread(lambda: list(self._decoded(batch)))
        for message, row in found:
            if row is not None:
                self._put(row)
            elif self._rows.get(key := self._known.key_in(message)) is not None:
                self._remove_older(key, message.sequence)
        self._known.add(batch)
        if self.ready:
            self.wake()

    async def up_to_date(self, state: StreamState) -> None:
        if not self.ready:
            self.ready = True
            log.info("the schedules are read: %d", len(self._rows))
            self.wake()

    async def drop(self, revisions: list[int]) -> None:
        for key in self._known.drop(revisions):
            self.remove(key)

    def _decoded(self, batch: list[StreamMessage]) -> Iterator[tuple[StreamMessage, ScheduleRow | None]]:
        """Each message with its row; None for a marker, and for a record that cannot be read."""
        for message in batch:
            key = self._known.key_in(message)
            row = None
            if not message.is_marker:
                try:
                    row = _read(key, message)
                except Exception as error:  # noqa: BLE001 - whatever is wrong with one, the others are read
                    problem = unreadable(error).detail
                    self._unreadable.add(RecordKind.SCHEDULE, key, message.sequence, problem)
                else:
                    self._unreadable.remove(RecordKind.SCHEDULE, key, older_than=message.sequence)
            yield message, row

    def _remove_older(self, key: str, revision: int) -> None:
        if self._rows[key].stored_revision <= revision:
            self.remove(key)


def _read(key: str, message: StreamMessage) -> ScheduleRow:
    record = decode_schedule(message.data)
    if record.key != key:
        raise UnreadableRecord(f"it is the record of {record.key}")
    return row_of(record, message.sequence)
