"""Events that failed and are sent again: one record each, claimed by compare-and-set.

The timekeeper of each gateway and a drain execute what is due. A claim ends by itself, so that a job whose
gateway died is executed by another one; the receipt of its key makes a second execution harmless.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from pyoco_server.aio.due_times import DueTimes
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.keyed_records import KeyedRecords, Stored
from pyoco_server.broker.stores.record_directory import RecordDirectory
from pyoco_server.errors import NatsUnavailable, PyocoError
from pyoco_server.records.ids import new_uuid
from pyoco_server.records.triggers.workflow_event_models import RetryJob, RetryStatus, decode_retry_job
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.triggers.workflow_events import retry_rules as rules
from pyoco_server.triggers.workflow_events.event_reasons import EventFailure, reason_of

log = logging.getLogger(__name__)

PREFIX: Final = "j"
# Longer than an attempt takes.
CLAIM_SEC: Final = 60.0
# Executed in one call of the timekeeper.
_BATCH: Final = 10
_AGAIN_SEC: Final = 1.0
_DAY_SEC: Final = 86_400.0

# Whether a caller may see what this tenant has.
Sees = Callable[[str | None], bool]
# Whether a job may be claimed at this time.
Allowed = Callable[[RetryJob, float], bool]


class NotExecutable(Exception):
    """The template does not exist any more, or starts something else: another attempt would not help."""

    def __init__(self, why: str, reason: EventFailure) -> None:
        super().__init__(why)
        self.reason = reason


@dataclass(slots=True)
class QueueCounts:
    total: int = 0
    due: int = 0
    by_status: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class DrainCounts:
    processed: int = 0
    by_status: Counter[str] = field(default_factory=Counter)


class RetryQueue:
    """Executes the retry jobs that are due. Called by the timekeeper."""

    name = "retries of workflow events"

    def __init__(
        self,
        connection: Connection,
        *,
        clock: Callable[[], float],
        execute: Callable[[RetryJob], Awaitable[str]],
        on_escalated: Callable[[RetryJob], Awaitable[None]],
    ) -> None:
        """`execute` starts the run of a job and returns its id; NotExecutable if that makes no sense."""
        config = connection.config
        self._config = config
        bucket = config.event_retries_kv_bucket
        self._store = KeyedRecords(connection, bucket, RecordKind.RETRY_JOB, decode_retry_job)
        self.directory = RecordDirectory(connection, bucket=bucket, of="retry jobs")
        self.directory.follow(PREFIX, RecordKind.RETRY_JOB, _decode_listed, self._on_change)
        self._clock = clock
        self._execute = execute
        self._on_escalated = on_escalated
        self._wake: Callable[[], None] = lambda: None
        # When to check which.
        self._check_at = DueTimes()
        # By tenant: how many are being added; and the keys of ended ones that make room for them.
        self._adding: Counter[str | None] = Counter()
        self._making_room: set[str] = set()
        self._notifying: set[asyncio.Task[None]] = set()
        # Jobs that this gateway could not queue, because there are too many.
        self.refused = 0

    def on_changes(self, wake: Callable[[], None]) -> None:
        """Register a callback: called when something may be due earlier."""
        self._wake = wake

    async def start(self) -> None:
        await self.directory.start()

    async def close(self) -> None:
        for task in self._notifying:
            task.cancel()
        await asyncio.gather(*self._notifying, return_exceptions=True)
        await self.directory.close()

    async def add(self, job: RetryJob) -> None:
        """Queue a job, unless its event is queued; one for which there is no room is logged and counted."""
        if not await self._make_room(job):
            self.refused += 1
            log.error(
                "a failed workflow event is not sent again: there are %d retry jobs that have not ended "
                "(AX_WORKFLOW_EVENT_RETRY_MAX_JOBS)",
                self._config.workflow_event_retry_max_jobs,
                extra={"template_id": job.template_id},
            )
            return
        self._adding[job.tenant_id] += 1
        try:
            queued = await self._store.change(
                job.key, lambda known: job if known is None or known.status.terminal else known
            )
            self._put(queued)
        finally:
            self._adding[job.tenant_id] -= 1

    def counts(self, sees: Sees) -> QueueCounts:
        now = self._clock()
        counts = QueueCounts()
        for job in self.jobs(sees):
            counts.total += 1
            counts.due += rules.is_due(job, now)
            counts.by_status[job.status] += 1
        return counts

    def jobs(self, sees: Sees) -> list[RetryJob]:
        """Those that the caller may see, the last changed first."""
        found: list[RetryJob] = self.directory.records(PREFIX)
        visible = (job for job in found if sees(job.tenant_id))
        return sorted(visible, key=lambda job: (job.updated_at, job.job_id), reverse=True)

    async def drain(self, sees: Sees, *, limit: int, force: bool) -> DrainCounts:
        """Execute what is due, or with `force` all jobs that are not claimed."""
        await self.directory.caught_up()
        now = self._clock()
        chosen = rules.is_claimable if force else rules.is_due
        jobs = [job for job in self.jobs(sees) if chosen(job, now)]
        jobs.sort(key=lambda job: (job.next_retry_at, job.updated_at))
        counts = DrainCounts()
        for job in jobs:
            if counts.processed == limit:
                break
            after = await self._attempt(job.key, _unless_attempted_since(job, chosen))
            if after is not None:
                counts.processed += 1
                counts.by_status[after.status] += 1
        return counts

    async def run_due(self, now: float) -> float | None:
        if not self.directory.ready:
            # The directory wakes the timekeeper when it has something.
            return now + 1.0
        poll_at = now + self._config.workflow_event_retry_worker_poll_seconds
        due = self._check_at.take_due(now, _BATCH)
        for position, key in enumerate(due):
            try:
                await self._check(key, now)
            except (NatsUnavailable, asyncio.CancelledError):
                for left in due[position:]:
                    self._check_at.schedule(left, now)
                raise
            except Exception:
                log.exception("a retry job could not be executed", extra={"job": key})
                self._check_at.schedule(key, poll_at)
        next_at = self._check_at.next_at()
        return poll_at if next_at is None else min(next_at, poll_at)

    async def _check(self, key: str, now: float) -> None:
        job: RetryJob | None = self.directory.get(key)
        if job is None:
            return
        if job.status is RetryStatus.ESCALATED and not job.notified:
            await self._notify(key)
        elif job.status.terminal:
            await self._remove_old(key, now)
        elif self._config.workflow_event_retry_worker_enabled:
            await self._attempt(key, rules.is_due)
        if key not in self._check_at:
            # Another gateway has claimed it, or it is not finished.
            self._on_change(key, self.directory.get(key), earliest=now + _AGAIN_SEC)

    async def _attempt(self, key: str, allowed: Allowed) -> RetryJob | None:
        """Execute a job once; None if it is claimed already, or not due."""
        claimed = await self._claim(key, allowed)
        if claimed is None:
            return None
        job = claimed.record
        try:
            run_id = await self._execute(job)
        except NotExecutable as error:
            after = rules.discarded(job, error.reason, str(error), now=self._clock())
        except NatsUnavailable:
            # Nothing can be stored either: the claim ends by itself.
            raise
        except Exception as error:  # noqa: BLE001 - it becomes the state of the job
            base_sec = self._config.workflow_event_retry_base_delay_seconds
            why = error.detail if isinstance(error, PyocoError) else repr(error)
            after = rules.failed(job, reason_of(error), why, base_sec=base_sec, now=self._clock())
        else:
            after = rules.succeeded(job, run_id, now=self._clock())
        if after.status is RetryStatus.ESCALATED:
            # Kept while the notification is sent: no other gateway sends it meanwhile.
            after.claim, after.claimed_until = job.claim, self._clock() + CLAIM_SEC
        written = await self._replace(claimed, after)
        if written is not None and after.status is RetryStatus.ESCALATED:
            self._notify_soon(written)
        return after

    async def _notify(self, key: str) -> None:
        """The gateway that has escalated it died before the notification was sent."""
        claimed = await self._claim(key, _needs_notification)
        if claimed is not None:
            self._notify_soon(claimed)

    def _notify_soon(self, escalated: Stored[RetryJob]) -> None:
        """No other job waits for it. If that fails, or this gateway dies, it is done when the claim ends."""
        task = asyncio.create_task(self._send_notification(escalated))
        self._notifying.add(task)
        task.add_done_callback(self._notification_ended)

    def _notification_ended(self, task: asyncio.Task[None]) -> None:
        self._notifying.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("the notification of an escalated event is repeated: %s", error)

    async def _send_notification(self, escalated: Stored[RetryJob]) -> None:
        await self._on_escalated(escalated.record)
        job = structs.replace(escalated.record, notified=True, claim=None, claimed_until=0.0)
        await self._replace(escalated, job)

    async def _claim(self, key: str, allowed: Allowed) -> Stored[RetryJob] | None:
        stored = await self._store.get_from_leader(key)
        now = self._clock()
        if stored is None or not allowed(stored.record, now):
            if stored is not None:
                self._put(stored)
            return None
        claimed = rules.claimed(stored.record, new_uuid(), until=now + CLAIM_SEC, now=now)
        return await self._replace(stored, claimed)

    async def _replace(self, stored: Stored[RetryJob], job: RetryJob) -> Stored[RetryJob] | None:
        """None if it was written meanwhile."""
        try:
            written = await self._store.replace(stored, job)
        except RevisionConflict:
            log.debug("another gateway has the retry job %s", job.job_id)
            return None
        self._put(written)
        return written

    async def _remove_old(self, key: str, now: float) -> None:
        stored = await self._store.get_from_leader(key)
        if stored is not None and stored.record.status.terminal and self._ends_at(stored.record) <= now:
            await self._delete(stored)

    async def _make_room(self, new: RetryJob) -> bool:
        """Whether there is room for one more job; the oldest that have ended make it."""
        tried: set[str] = set()
        while True:
            # Nothing is awaited between this and the count of those that are being added.
            jobs = [job for job in self.jobs(lambda owner: owner == new.tenant_id) if job.key != new.key]
            if len(jobs) + self._adding[new.tenant_id] < self._config.workflow_event_retry_max_jobs:
                return True
            ended = (job.key for job in reversed(jobs) if job.status.terminal)
            key = next((key for key in ended if key not in self._making_room | tried), None)
            if key is None:
                return False
            tried.add(key)
            self._making_room.add(key)
            try:
                stored = await self._store.get_from_leader(key)
                if stored is not None and stored.record.status.terminal:
                    await self._delete(stored)
            finally:
                self._making_room.discard(key)

    async def _delete(self, stored: Stored[RetryJob]) -> None:
        try:
            await self._store.delete(stored)
        except RevisionConflict:
            return
        self.directory.remove(stored.record.key, revision=stored.revision)

    def _put(self, stored: Stored[RetryJob]) -> None:
        self.directory.put(_without_payload(stored.record), stored.revision)

    def _ends_at(self, job: RetryJob) -> float:
        return job.updated_at + self._config.workflow_event_retry_terminal_ttl_days * _DAY_SEC

    # When to look at which

    def _on_change(self, key: str, job: RetryJob | None, *, earliest: float = 0.0) -> None:
        if job is None:
            self._check_at.discard(key)
            return
        at = rules.next_check_at(job)
        self._check_at.schedule(key, max(self._ends_at(job) if at is None else at, earliest))
        self._wake()


def _without_payload(job: RetryJob) -> RetryJob:
    """As it is kept in memory: a job that is executed is read again."""
    return structs.replace(job, event=structs.replace(job.event, payload=None))


def _decode_listed(encoded: bytes) -> RetryJob:
    return _without_payload(decode_retry_job(encoded))


def _unless_attempted_since(listed: RetryJob, chosen: Allowed) -> Allowed:
    """Of two drains at once, the second leaves alone what the first has executed meanwhile."""

    def allowed(job: RetryJob, now: float) -> bool:
        same = (job.created_at, job.attempts) == (listed.created_at, listed.attempts)
        return same and chosen(job, now)

    return allowed


def _needs_notification(job: RetryJob, now: float) -> bool:
    return job.status is RetryStatus.ESCALATED and not job.notified and job.claimed_until <= now
