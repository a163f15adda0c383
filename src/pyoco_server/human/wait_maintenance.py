"""Maintenance of waits: expires them, and completes what a gateway that stopped has left undone.

Every gateway runs one without coordination: each action is a compare-and-set, or may be repeated. A timer
makes an expiry prompt; a periodic scan of all waits and waiting runs makes it certain.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final

from pyoco_server.aio.background import BackgroundLoop
from pyoco_server.broker.client.connection import Connection, PayloadTooLarge
from pyoco_server.broker.queue.queued_runs import QueuedRuns
from pyoco_server.broker.stores.wait_store import WaitStore
from pyoco_server.errors import IndexNotReady, NatsUnavailable, PyocoError
from pyoco_server.errors.error_table import Err
from pyoco_server.human.continuation import MAY_HAVE_OPEN_WAITS, Continuations
from pyoco_server.human.inbox.wait_index import WaitIndex
from pyoco_server.human.wait_transitions import due_notice, expired
from pyoco_server.records.wait_models import WaitState, run_id_of
from pyoco_server.runs.sweep.open_runs import OpenRun, OpenRuns

log = logging.getLogger(__name__)

# Waits or runs that are processed concurrently, and expired waits per query.
_CONCURRENT: Final = 32
_BATCH: Final = 1000
# The index lags a little behind a decision.
_INDEX_LAG_SEC: Final = 0.05
# Time for whoever has decided a wait to continue its run.
_GRACE_SEC: Final = 1.0


class WaitMaintenance:
    def __init__(
        self,
        connection: Connection,
        index: WaitIndex,
        open_runs: OpenRuns,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._connection = connection
        self._index = index
        self._runs = open_runs
        self._clock = clock
        self._interval_sec = connection.config.sweep_interval_sec
        self._grace_sec = min(_GRACE_SEC, self._interval_sec)
        self._waits = WaitStore(connection)
        self._continuations = Continuations(connection)
        self._queued = QueuedRuns(connection)
        # The job of a run that begins to wait has left the queue.
        open_runs.on_waiting(self._queued.forget_before)
        open_runs.on_ended(self._queued.forget)
        open_runs.on_ended_waiting(self._on_ended_with_waits)
        self._loop = BackgroundLoop("wait maintenance", self._step)
        self._next_scan_at = 0.0
        # All waits with a deadline up to this time have been processed.
        self._due_until = 0.0
        # Expired here, and perhaps still open in the index.
        self._expired: set[str] = set()
        # Reminded or escalated here, and perhaps still due in the index.
        self._notified: set[str] = set()
        # Ids and revisions of the waits that had an outbox at the last scan.
        self._with_outbox: set[tuple[str, int]] = set()
        # Runs that have ended, and whose waits are to be closed.
        self._ended: set[str] = set()
        # The connection's count of interruptions when waits were last expired.
        self._interruptions = 0
        self._reported_failure = False
        self.scans = 0

    async def start(self) -> None:
        self._loop.start()

    async def close(self) -> None:
        await self._loop.close()

    def wake(self) -> None:
        """A wait has changed: there may be an earlier deadline."""
        self._loop.wake()

    def _on_ended_with_waits(self, run_id: str) -> None:
        self._ended.add(run_id)
        self._loop.wake()

    async def _step(self) -> None:
        await self._connection.wait_ready()
        pause_sec = self._interval_sec
        if self._index.ready:
            jobs = (
                self._expire_due,
                self._notify_due,
                self._close_ended,
                self._flush_outboxes_if_due,
                self._scan_if_due,
            )
            failures = [failure for job in jobs if (failure := await _failure_of(job)) is not None]
            if failures and not self._reported_failure:
                spec = Err.NATS_UNAVAILABLE
                log.warning("maintenance of waits failed: %s", failures[0], extra=spec.log_fields())
            self._reported_failure = bool(failures)
            if not failures:
                with suppress(IndexNotReady):
                    pause_sec = await self._pause_sec()
        await self._loop.pause(pause_sec)

    async def _pause_sec(self) -> float:
        """Until the next deadline or scan."""
        # A due wait that cannot be written must not make this a busy loop.
        deadline = await self._index.next_deadline(self._due_until)
        until_scan = self._next_scan_at - time.monotonic()
        until_deadline = until_scan if deadline is None else deadline - self._clock()
        return max(_INDEX_LAG_SEC, min(until_scan, until_deadline))

    async def _expire_due(self) -> None:
        now = self._clock()
        if self._interruptions != self._connection.interruptions:
            # The server may have lost the write of an expiry.
            self._interruptions = self._connection.interruptions
            self._expired = set()
            self._notified = set()
        due = set(await self._index.due(now, _BATCH))
        await _for_each(self._expire, due - self._expired)
        self._expired = due
        self._due_until = now if len(due) < _BATCH else 0.0

    async def _expire(self, wait_id: str) -> None:
        while True:
            wait = await self._waits.find(wait_id)
            now = self._clock()
            if wait is None or wait.record.state is not WaitState.OPEN or now < wait.record.deadline_at:
                return
            # After a conflict the wait may still be open.
            if await self._continuations.decide(wait, expired(wait.record, at=now)):
                await self._continuations.continue_run(run_id_of(wait_id))
                return

    async def _notify_due(self) -> None:
        """Record the reminders and escalations that are due; each once, by compare-and-set on the wait."""
        due = set(await self._index.notices_due(self._clock(), _BATCH))
        await _for_each(self._notify, due - self._notified)
        self._notified = due

    async def _notify(self, wait_id: str) -> None:
        while (wait := await self._waits.find(wait_id)) is not None:
            due = due_notice(wait.record, at=self._clock())
            if due is None:
                return
            # After a conflict, or the first of two, it is read again.
            await self._continuations.decide(wait, *due)

    async def _close_ended(self) -> None:
        ended, self._ended = self._ended, set()
        await _for_each(self._continuations.close_waits, ended)

    async def _flush_outboxes_if_due(self) -> None:
        """Publish what has been in an outbox since the last scan: its writer did not."""
        if time.monotonic() < self._next_scan_at:
            return
        before, self._with_outbox = self._with_outbox, set(await self._index.with_outbox(_BATCH))
        unpublished = {wait_id for wait_id, _ in before & self._with_outbox}
        await _for_each(self._continuations.flush_outbox, unpublished)

    async def _scan_if_due(self) -> None:
        if time.monotonic() >= self._next_scan_at:
            await self._scan()

    async def _scan(self) -> None:
        self._next_scan_at = time.monotonic() + self._interval_sec
        open_waits = await self._index.open_waits()
        # Empty until the feed of runs has been read once.
        if self._runs.created:
            # `close_waits` asks NATS whether such a run has ended: an unknown one may be new.
            unknown = {run_id for run_id in map(run_id_of, open_waits) if run_id not in self._runs}
            await _for_each(self._continuations.close_waits, unknown)
            await self._continue(open_waits)
        self.scans += 1

    async def _continue(self, open_waits: set[str]) -> None:
        """Continue the runs whose waits are decided, or remove the waits from those that are queued again."""
        stuck: list[OpenRun] = []
        async for group in self._runs.groups():
            stuck += (run for run in group if self._is_stuck(run, open_waits))
        if not stuck:
            return
        await self._queued.compare(await self._queued.count())
        if not all(map(self._has_job, stuck)):
            async for _ in self._queued.read():
                pass
        with_job = {run.run_id for run in stuck if self._has_job(run)}
        await _for_each(
            lambda run_id: self._continuations.continue_run(run_id, has_job=run_id in with_job),
            [run.run_id for run in stuck],
        )

    def _has_job(self, run: OpenRun) -> bool:
        return self._queued.has_job(run.run_id, run.state.generation)

    def _is_stuck(self, run: OpenRun, open_waits: set[str]) -> bool:
        return (
            run.state.status in MAY_HAVE_OPEN_WAITS
            and run.silent_sec > self._grace_sec
            and any(wait.wait_id not in open_waits for wait in run.state.open_waits)
        )


async def _failure_of(job: Callable[[], Awaitable[None]]) -> PyocoError | None:
    try:
        await job()
    except (NatsUnavailable, IndexNotReady) as error:
        return error
    return None


async def _for_each(act: Callable[[str], Awaitable[None]], ids: Iterable[str]) -> None:
    """Log what fails and go on; NatsUnavailable ends it."""
    waiting = list(ids)
    for start in range(0, len(waiting), _CONCURRENT):
        some = waiting[start : start + _CONCURRENT]
        for each, outcome in zip(
            some, await asyncio.gather(*map(act, some), return_exceptions=True), strict=True
        ):
            if isinstance(outcome, PayloadTooLarge):
                log.error("a wait cannot be written: %s", outcome, extra=_log_fields(each))
            elif isinstance(outcome, NatsUnavailable):
                raise outcome
            elif isinstance(outcome, BaseException):
                log.error("maintenance of a wait failed", exc_info=outcome, extra=_log_fields(each))


def _log_fields(wait_or_run_id: str) -> dict[str, str]:
    run_id = run_id_of(wait_or_run_id)
    return {"run_id": run_id} if wait_or_run_id == run_id else {"run_id": run_id, "wait_id": wait_or_run_id}
