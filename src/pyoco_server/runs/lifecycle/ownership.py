"""Ownership of a run: claiming it, and writing it as its owner.

Every write is a compare-and-set on the revision it is based on. After a conflict the stored snapshot is read:
the ownership ends (the run has ended, or a later delivery owns it), or a cancel request is merged.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final

from msgspec import UNSET, UnsetType, structs

from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.stores.runs.run_store import RunStore, StoredRun
from pyoco_server.errors import NatsUnavailable, UnreadableRecord
from pyoco_server.errors.error_table import Err
from pyoco_server.records.runs.run_models import (
    MAX_EARLIER_ATTEMPTS,
    DeliveryId,
    EarlierAttempt,
    Job,
    RunSnapshot,
    RunStatus,
    encode,
    pending_snapshot,
)
from pyoco_server.runs.lifecycle.compaction import compact_run_snapshot
from pyoco_server.runs.lifecycle.field_ownership import FieldOwner, fields_of
from pyoco_server.runs.lifecycle.waiting_state import cleared_wait_fields

log = logging.getLogger(__name__)

_ACCEPTED: Final = fields_of(FieldOwner.SUBMIT)
_GATEWAYS: Final = fields_of(FieldOwner.GATEWAY)


class NotOwner(Exception):
    """This delivery does not own the run; the text says why."""


class RunGone(NotOwner):
    """The run does not exist: its submission failed and was withdrawn, or it was deleted."""


class RunEnded(NotOwner):
    """The run has ended; `by_us` if that was a write of ours whose ack was lost."""

    def __init__(self, why: str, *, by_us: bool = False) -> None:
        super().__init__(why)
        self.by_us = by_us


class RunTaken(NotOwner):
    """A later delivery owns the run, or an earlier one that this worker still executes."""


class DuplicateJob(NotOwner):
    """Another message in the queue is this run's job."""


class StaleJob(NotOwner):
    """The run has waited since this job was published."""


class OwnedRun:
    """A claimed run; its owner writes it only through this."""

    def __init__(
        self, store: RunStore, stored: StoredRun, *, max_bytes: int, before: RunSnapshot | None = None
    ) -> None:
        self._store = store
        # The snapshot before the claim.
        self._before = before
        self._revision = stored.revision
        self._max_bytes = max_bytes
        self._writing = asyncio.Lock()
        # When the ownership was last confirmed.
        self._confirmed_at = time.monotonic()
        # `updated_at` of writes without an ack, which may be stored.
        self._unacknowledged: set[float] = set()
        self._used_before_sec = time_used(stored.snapshot)
        self._owned_since = time.monotonic()
        self.snapshot = stored.snapshot

    @property
    def used_sec(self) -> float:
        """How much of its `timeout_sec` the run has used."""
        return self._used_before_sec + time.monotonic() - self._owned_since

    def write(self, change: Callable[[RunSnapshot], RunSnapshot]) -> Coroutine[Any, Any, RunSnapshot]:
        """Apply `change` to the newest snapshot and store it; NotOwner if the ownership has ended."""
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
                snapshot = apply_cancel(structs.replace(change(self.snapshot), updated_at=time.time()))
                encoded = encode(snapshot)
                if len(encoded) > self._max_bytes:
                    snapshot = self._compacted(snapshot)
                    encoded = encode(snapshot)
                sent_at = time.monotonic()
                try:
                    self._revision = await self._store.replace(
                        snapshot, revision=self._revision, encoded=encoded
                    )
                except RevisionConflict:
                    await self._read_back()
                except NatsUnavailable:
                    self._unacknowledged.add(snapshot.updated_at)
                    raise
                else:
                    self.snapshot = snapshot
                    self._confirmed_at = sent_at
                    return snapshot

    def _compacted(self, snapshot: RunSnapshot) -> RunSnapshot:
        fitting = compact_run_snapshot(snapshot, self._max_bytes)
        if len(fitting.tasks) < len(snapshot.tasks):
            spec = Err.SNAPSHOT_TOO_LARGE
            log.error("%s: %s", spec.en, fitting.error, extra=spec.log_fields(run_id=fitting.run_id))
        return fitting

    async def unclaim(self, *, last_delivery: bool = False) -> bool:
        """Undo the claim of a run that was not started; False when it is to be cancelled instead.

        The claim stays if the run had an owner before: without it, that worker would find its own delivery in
        the snapshot and go on. It also stays on the last delivery, from which the sweep sees that none
        follows. Both are handed back.
        """
        before = self._before
        if before is None or before.delivery is not None or last_delivery:
            await self.hand_back(continues=UNSET if before is None else before.continues)
        else:
            await self._write(lambda mine: before if mine.cancel_requested_at is None else mine)
        return self.snapshot.cancel_requested_at is None

    async def hand_back(self, *, continues: bool | UnsetType = UNSET) -> None:
        """Mark it as handed back, until its next delivery is claimed; `continues`: with an answer."""
        await self.write(lambda mine: structs.replace(mine, handed_back=True, continues=continues))

    async def refresh(self) -> None:
        """Read a cancel request; NotOwner if the ownership has ended."""
        async with self._writing:
            if not self.snapshot.status.terminal:
                await self._read_back()

    async def verify(self, max_age_sec: float) -> None:
        """Confirm the ownership if it was last confirmed longer ago; NotOwner if it has ended.

        A worker whose process was paused calls it before it writes anything else.
        """
        if time.monotonic() - self._confirmed_at > max_age_sec:
            await self.refresh()

    async def _read_back(self) -> None:
        sent_at = time.monotonic()
        stored = await self._store.get_from_leader(self.snapshot.run_id)
        if stored is None:
            raise RunGone("the run was deleted")
        if stored.snapshot.status.terminal:
            self.snapshot = stored.snapshot
            raise self._ended()
        self.snapshot = merge(self.snapshot, stored.snapshot)
        # After the merge: with the new revision alone, the next write would overwrite the cancel request.
        self._revision = stored.revision
        self._confirmed_at = sent_at

    def _ended(self) -> RunEnded:
        # Another process that ends the run keeps our delivery in it, but writes another time.
        by_us = self.snapshot.updated_at in self._unacknowledged
        return RunEnded(f"the run is {self.snapshot.status} already", by_us=by_us)


def merge(mine: RunSnapshot, stored: RunSnapshot) -> RunSnapshot:
    """The owner's snapshot with what is the gateway's: a cancel request, waits that are decided."""
    if stored.status.terminal:
        raise RunEnded(f"the run is {stored.status} already")
    if stored.delivery != mine.delivery:
        raise RunTaken(f"worker {stored.worker_id} owns the run (attempt {stored.attempt})")
    return structs.replace(mine, **{name: getattr(stored, name) for name in _GATEWAYS})


def apply_cancel(snapshot: RunSnapshot) -> RunSnapshot:
    """A run that ends after a cancel request is CANCELLED, however its last task ended."""
    if snapshot.cancel_requested_at is None:
        return snapshot
    status = RunStatus.CANCELLED if snapshot.status.terminal else RunStatus.CANCELLING
    return structs.replace(snapshot, status=status)


async def claim(
    store: RunStore,
    queue: WorkQueue,
    job: Job,
    *,
    delivery: DeliveryId,
    expected_revision: int | None,
    worker_id: str,
    max_bytes: int,
    worker_instance: str = "",
    in_progress: Collection[DeliveryId] = (),
) -> OwnedRun:
    """Claim the run by one compare-and-set; NotOwner says why that is impossible.

    `expected_revision` is that of the PENDING snapshot, which follows from the job: the first delivery claims
    without a read. `in_progress` are the deliveries that this process handles.
    """
    stored: StoredRun | None = None
    if expected_revision is not None and delivery.number == 1:
        stored = StoredRun(pending_snapshot(job), expected_revision)
    while True:
        if stored is None:
            stored = await _accepted(store, job)
        if stored is None:
            raise RunGone("the run does not exist; its submission was not accepted")
        _check_open(stored.snapshot, job.generation)
        if stored.snapshot.delivery is not None:
            await _check_delivery(queue, stored.snapshot, stored.snapshot.delivery, delivery)
            if stored.snapshot.worker_instance == worker_instance and stored.snapshot.delivery in in_progress:
                raise RunTaken(f"this worker still executes delivery {stored.snapshot.delivery}")
        claimed = _claimed(stored.snapshot, job, delivery, worker_id, worker_instance)
        if claimed.timeout_sec is not None:
            claimed.used_sec = await time_used_until_now(store, stored)
        try:
            revision = await store.replace(claimed, revision=stored.revision)
        except RevisionConflict:
            stored = None
        else:
            return OwnedRun(store, StoredRun(claimed, revision), max_bytes=max_bytes, before=stored.snapshot)


async def time_used_until_now(store: RunStore, stored: StoredRun) -> float:
    """Including the time between two owners, but not its waits."""
    has_had_owner = stored.snapshot.delivery is not None
    return time_used(stored.snapshot) + (await store.age_sec(stored) if has_had_owner else 0.0)


async def _accepted(store: RunStore, job: Job) -> StoredRun | None:
    """The stored run with what its job says: any worker may have changed its tenant or its time limit."""
    stored = await store.get_from_leader(job.run_id)
    if stored is None:
        return None
    accepted = pending_snapshot(job)
    snapshot = structs.replace(stored.snapshot, **{name: getattr(accepted, name) for name in _ACCEPTED})
    return structs.replace(stored, snapshot=snapshot)


def _check_open(current: RunSnapshot, generation: int) -> None:
    if current.status.terminal:
        raise RunEnded(f"the run is {current.status} already")
    if not current.status.known:
        raise UnreadableRecord(f"run {current.run_id}: its status {current.status} is of a newer version")
    if current.generation != generation:
        raise StaleJob(f"the run has waited {current.generation} times, this is its job after {generation}")


async def _check_delivery(
    queue: WorkQueue, current: RunSnapshot, owned: DeliveryId, delivery: DeliveryId
) -> None:
    """The owner's message is the run's job while it is in the queue; its latest delivery owns the run.

    A job that seemed lost may have been published again, and be in the queue twice.
    """
    if owned.sequence == delivery.sequence:
        if owned >= delivery:
            raise RunTaken(f"worker {current.worker_id} owns delivery {owned}, this is {delivery}")
    elif await queue.is_job_of(current.run_id, sequence=owned.sequence):
        raise DuplicateJob(f"message {owned.sequence} is the run's job, and this is {delivery.sequence}")


def _claimed(
    current: RunSnapshot, job: Job, delivery: DeliveryId, worker_id: str, worker_instance: str
) -> RunSnapshot:
    now = time.time()
    continuations, earlier = current.continuations, current.earlier_attempts
    is_continued = current.continues is True or (current.generation > 0 and current.delivery is None)
    if is_continued:
        continuations = (continuations or 0) + 1
    elif current.delivery is not None:
        earlier = [*(earlier or []), _unfinished(current)][-MAX_EARLIER_ATTEMPTS:]
    return structs.replace(
        current,
        status=RunStatus.RUNNING if current.cancel_requested_at is None else RunStatus.CANCELLING,
        attempt=current.attempt + 1,
        attempt_started_at=(current.attempt_started_at or now) if is_continued else now,
        earlier_attempts=earlier,
        continuations=continuations,
        delivery=delivery,
        handed_back=UNSET,
        continues=UNSET,
        handed_over_at=UNSET,
        worker_id=worker_id,
        worker_instance=worker_instance or UNSET,
        start_time=current.start_time or now,
        heartbeat_at=now,
        updated_at=now,
        # Of the job, if it has one: only gateways publish jobs.
        signature=job.signature or current.signature,
        **cleared_wait_fields(current),
    )


def _unfinished(run: RunSnapshot) -> EarlierAttempt:
    """The attempt of the owner that the next claim takes the run from."""
    return EarlierAttempt(
        number=run.shown_attempt,
        worker_id=run.worker_id,
        started_at=run.attempt_started_at or None,
        last_heartbeat_at=run.heartbeat_at,
        handed_back=run.handed_back is True,
        lost_at=run.handed_over_at or None,
    )


def time_used(snapshot: RunSnapshot) -> float:
    """The seconds of its `timeout_sec` up to its last write: since its first start, without its waits.

    The owner counts by its monotonic clock and stores the sum with each write. Between two owners the
    server's clock counts, in the sweep the gateway's: clocks of different machines are not compared.
    """
    if snapshot.used_sec is not UNSET:
        return snapshot.used_sec
    return time_used_by_heartbeat(snapshot.start_time, snapshot.heartbeat_at, snapshot.waited_sec or 0.0)


def time_used_by_heartbeat(start_time: float | None, heartbeat_at: float, waited_sec: float) -> float:
    """The same for an owner of an older version, which does not store it."""
    return 0.0 if start_time is None else max(0.0, heartbeat_at - start_time - waited_sec)
