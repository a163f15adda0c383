"""Who may write a run: claiming it, and writing it as its owner without undoing anybody else's word.

Every write replaces exactly the revision it was based on. When somebody else wrote in between, the stored
snapshot is read again and either obeyed (the run has ended, or a later delivery owns it) or merged (a
cancel was requested).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import UNSET, structs

from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.stores.run_store import RunStore, StoredRun
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.records.models import Job, RunSnapshot, RunStatus, encode, pending_snapshot
from pyoco_server.runs.lifecycle.compaction import compact_run_snapshot
from pyoco_server.runs.lifecycle.time_used import time_used
from pyoco_server.runs.lifecycle.waiting_state import not_waiting

log = logging.getLogger(__name__)


class NotOwner(Exception):
    """The run is no longer (or never was) this delivery's to execute; the text says why."""


class RunGone(NotOwner):
    """No such run: its submission was answered with an error and withdrawn."""


class RunEnded(NotOwner):
    """The run has a terminal state already; `by_us` if it is a write of ours whose answer was lost."""

    def __init__(self, why: str, *, by_us: bool = False) -> None:
        super().__init__(why)
        self.by_us = by_us


class RunTaken(NotOwner):
    """A later delivery of the run has an owner already."""


class DuplicateJob(NotOwner):
    """Another message in the queue is this run's job; this one was published beside it."""


class StaleJob(NotOwner):
    """The run has waited for people since this job was published."""


class OwnedRun:
    """A run this worker has claimed, and the only way to write it."""

    def __init__(
        self, store: RunStore, stored: StoredRun, *, max_bytes: int, before: RunSnapshot | None = None
    ) -> None:
        self._store = store
        # What it was before it was claimed.
        self._before = before
        self._revision = stored.revision
        self._max_bytes = max_bytes
        self._writing = asyncio.Lock()
        # When it was last certain that the run is ours.
        self._certain_at = time.monotonic()
        # `updated_at` of writes that may be stored although nobody said so.
        self._unanswered: set[float] = set()
        self._used_before_sec = time_used(stored.snapshot)
        self._owned_since = time.monotonic()
        self.snapshot = stored.snapshot

    @property
    def used_sec(self) -> float:
        """How much of its `timeout_sec` the run has used until now."""
        return self._used_before_sec + time.monotonic() - self._owned_since

    def write(self, change: Callable[[RunSnapshot], RunSnapshot]) -> Coroutine[Any, Any, RunSnapshot]:
        """Apply `change` to the newest snapshot and store it; NotOwner if the run is not ours any more."""
        return self._write(lambda mine: self._with_time_used(change(mine)))

    def _with_time_used(self, snapshot: RunSnapshot) -> RunSnapshot:
        if snapshot.timeout_sec is None:
            return snapshot
        return structs.replace(snapshot, used_sec=round(self.used_sec, 3))

    async def _write(self, change: Callable[[RunSnapshot], RunSnapshot]) -> RunSnapshot:
        async with self._writing:
            while True:
                if self.snapshot.status.terminal:
                    raise self._ended()
                wanted = settle(structs.replace(change(self.snapshot), updated_at=time.time()))
                encoded = encode(wanted)
                if len(encoded) > self._max_bytes:
                    wanted = self._compacted(wanted)
                    encoded = encode(wanted)
                asked_at = time.monotonic()
                try:
                    self._revision = await self._store.replace(
                        wanted, revision=self._revision, encoded=encoded
                    )
                except RevisionConflict:
                    await self._read_again()
                except NatsUnavailable:
                    self._unanswered.add(wanted.updated_at)
                    raise
                else:
                    self.snapshot = wanted
                    self._certain_at = asked_at
                    return wanted

    def _compacted(self, snapshot: RunSnapshot) -> RunSnapshot:
        fitting = compact_run_snapshot(snapshot, self._max_bytes)
        if len(fitting.tasks) < len(snapshot.tasks):
            spec = Err.SNAPSHOT_TOO_LARGE
            log.error("%s: %s", spec.en, fitting.error, extra=spec.log_fields(run_id=fitting.run_id))
        return fitting

    async def unclaim(self, *, last_delivery: bool = False) -> bool:
        """Make a run that was not begun what it was before; False when it is to be cancelled instead.

        One that somebody else had begun before stays claimed, because its earlier owner must not find itself
        in it; and so does one with its last delivery, because the sweep must see that none will follow. Both
        are handed back.
        """
        before = self._before
        if before is None or before.delivery is not None or last_delivery:
            await self.let_go()
        else:
            await self._write(lambda mine: before if mine.cancel_requested_at is None else mine)
        return self.snapshot.cancel_requested_at is None

    async def let_go(self) -> None:
        """Say that nobody works on it any more, until the next delivery of it is claimed."""
        await self.write(lambda mine: structs.replace(mine, handed_back=True))

    async def refresh(self) -> None:
        """Learn what somebody else has asked of the run; NotOwner if it is not ours any more."""
        async with self._writing:
            if not self.snapshot.status.terminal:
                await self._read_again()

    async def assure(self, within_sec: float) -> None:
        """Ask whether the run is still ours, if nothing has told so for this long; NotOwner if it is not.

        A worker that was paused finds out before it writes anything else.
        """
        if time.monotonic() - self._certain_at > within_sec:
            await self.refresh()

    async def _read_again(self) -> None:
        asked_at = time.monotonic()
        stored = await self._store.get_from_leader(self.snapshot.run_id)
        if stored is None:
            raise RunGone("the run was deleted")
        if stored.snapshot.status.terminal:
            self.snapshot = stored.snapshot
            raise self._ended()
        self.snapshot = merge(self.snapshot, stored.snapshot)
        # Not before: the revision of somebody else's word would be the permission to overwrite it.
        self._revision = stored.revision
        self._certain_at = asked_at

    def _ended(self) -> RunEnded:
        # Whoever else ends a run leaves our delivery in it, but has a time of its own.
        by_us = self.snapshot.updated_at in self._unanswered
        return RunEnded(f"the run is {self.snapshot.status} already", by_us=by_us)


def merge(mine: RunSnapshot, stored: RunSnapshot) -> RunSnapshot:
    """What I know of my run, with what somebody else asked of it since."""
    if stored.status.terminal:
        raise RunEnded(f"the run is {stored.status} already")
    if stored.delivery != mine.delivery:
        raise RunTaken(f"worker {stored.worker_id} owns the run (attempt {stored.attempt})")
    return structs.replace(
        mine,
        status=stored.status,
        cancel_requested_at=stored.cancel_requested_at,
        cancel_requested_by=stored.cancel_requested_by,
        cancel_reason=stored.cancel_reason,
    )


def settle(snapshot: RunSnapshot) -> RunSnapshot:
    """A run that ends after a cancel was requested is CANCELLED, however its last task ended."""
    if snapshot.cancel_requested_at is None:
        return snapshot
    status = RunStatus.CANCELLED if snapshot.status.terminal else RunStatus.CANCELLING
    return structs.replace(snapshot, status=status)


async def claim(
    store: RunStore,
    queue: WorkQueue,
    job: Job,
    *,
    delivery: tuple[int, int],
    expected_revision: int | None,
    worker_id: str,
    max_bytes: int,
) -> OwnedRun:
    """Make the run ours by one compare-and-set; NotOwner says why it cannot be.

    The publisher tells the revision of its PENDING snapshot, which job and snapshot determine each other:
    the first delivery therefore claims without reading.
    """
    stored: StoredRun | None = None
    if expected_revision is not None and delivery[1] == 1:
        stored = StoredRun(pending_snapshot(job), expected_revision)
    while True:
        if stored is None:
            stored = await store.get_from_leader(job.run_id)
        if stored is None:
            raise RunGone("the run does not exist; its submission was not accepted")
        _check_open(stored.snapshot, job.generation)
        if stored.snapshot.delivery is not None:
            await _check_delivery(queue, stored.snapshot, stored.snapshot.delivery, delivery)
        claimed = _claimed(stored.snapshot, delivery, worker_id)
        if claimed.timeout_sec is not None:
            claimed.used_sec = await _time_used_until_now(store, stored)
        try:
            revision = await store.replace(claimed, revision=stored.revision)
        except RevisionConflict:
            stored = None
        else:
            return OwnedRun(store, StoredRun(claimed, revision), max_bytes=max_bytes, before=stored.snapshot)


async def _time_used_until_now(store: RunStore, stored: StoredRun) -> float:
    """Also while nobody had the run, between two owners; but not while it waited for people."""
    has_had_owner = stored.snapshot.delivery is not None
    return time_used(stored.snapshot) + (await store.age_sec(stored) if has_had_owner else 0.0)


def _check_open(current: RunSnapshot, generation: int) -> None:
    """A run that is over is nobody's, and one that has waited goes on with a job of its generation."""
    if current.status.terminal:
        raise RunEnded(f"the run is {current.status} already")
    if current.generation != generation:
        raise StaleJob(f"the run has waited {current.generation} times, this is its job after {generation}")


async def _check_delivery(
    queue: WorkQueue, current: RunSnapshot, owned: tuple[int, int], delivery: tuple[int, int]
) -> None:
    """One message is the run's job as long as it is in the queue; of its deliveries the latest counts.

    A job that was lost may be published again, and be there twice when it was not lost after all.
    """
    if owned[0] == delivery[0]:
        if owned >= delivery:
            raise RunTaken(f"worker {current.worker_id} owns delivery {owned}, this is {delivery}")
    elif await queue.has_job(current.run_id, owned[0]):
        raise DuplicateJob(f"message {owned[0]} is the run's job, and this is {delivery[0]}")


def _claimed(current: RunSnapshot, delivery: tuple[int, int], worker_id: str) -> RunSnapshot:
    now = time.time()
    return structs.replace(
        current,
        status=RunStatus.RUNNING if current.cancel_requested_at is None else RunStatus.CANCELLING,
        attempt=current.attempt + 1,
        delivery=delivery,
        handed_back=UNSET,
        worker_id=worker_id,
        start_time=current.start_time or now,
        heartbeat_at=now,
        updated_at=now,
        **not_waiting(current),
    )
