"""Maintenance of waits: ends them at their deadline, and completes what a stopped gateway has left undone.

This says when. What becomes of a wait at its deadline is in wait_transitions.py (`expired`); the answer that
its task receives, the default, in records/waits/wait_models.py (`WaitRecord.value` and `resolved`).

Every gateway runs one without coordination: each action is a compare-and-set, or may be repeated. Its cost
follows what is due and what was written: a timer ends waits at their deadlines; and a run is checked, a
moment later, when it or one of its waits was written. Everything is checked when the index is filled, after
an interruption of the connection, and now and then.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Final

from pyoco_server.aio.background import BackgroundLoop
from pyoco_server.aio.parallel import READ_TOGETHER
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.queue.queued_runs import QueuedRuns
from pyoco_server.broker.stores.runs.run_store import StoredRun
from pyoco_server.broker.stores.waits.wait_store import StoredWait, WaitStore
from pyoco_server.errors import IndexNotReady, NatsUnavailable, PyocoError
from pyoco_server.errors.error_table import Err
from pyoco_server.records.waits.wait_models import WaitRecord, WaitState, run_id_of_wait
from pyoco_server.runs.open_runs import OpenRun, OpenRuns
from pyoco_server.waits.continuation import MAY_HAVE_OPEN_WAITS, Continuations
from pyoco_server.waits.each_wait import for_each_wait
from pyoco_server.waits.index.wait_index import WaitIndex, WaitWrite
from pyoco_server.waits.wait_transitions import due_notice, expired

log = logging.getLogger(__name__)

# Expired waits, or checked ones, per query.
_BATCH: Final = 1000
# The index lags a little behind a decision.
_INDEX_LAG_SEC: Final = 0.05
# How long the gateway that decided a wait has to continue its run.
_GRACE_SEC: Final = 1.0
# Rounds between two checks of everything.
_ROUNDS: Final = 60


class WaitMaintenance:
    """`check_all_sec` is the time between two checks of everything; by default that of many rounds."""

    def __init__(
        self,
        connection: Connection,
        index: WaitIndex,
        open_runs: OpenRuns,
        *,
        clock: Callable[[], float] = time.time,
        check_all_sec: float | None = None,
    ) -> None:
        self._connection = connection
        self._index = index
        self._runs = open_runs
        self._clock = clock
        self._interval_sec = connection.config.sweep_interval_sec
        self._check_all_sec = _ROUNDS * self._interval_sec if check_all_sec is None else check_all_sec
        self._grace_sec = min(_GRACE_SEC, self._interval_sec)
        self._waits = WaitStore(connection)
        self._continuations = Continuations(connection, in_background=True)
        self._queued = QueuedRuns(connection, shared_id=open_runs.shared_id)
        # The job of a run that begins to wait has left the queue.
        open_runs.on_parked(self._queued.forget_before)
        open_runs.on_ended(self._queued.forget)
        open_runs.on_waits_changed(self._check_later)
        open_runs.on_ended_with_waits(self._on_ended_with_waits)
        self._loop = BackgroundLoop("wait maintenance", self._step)
        self._next_round_at = 0.0
        self._next_check_all_at = 0.0
        # Runs to check, and from when on by the monotonic clock; the earliest first.
        self._to_check: dict[str, float] = {}
        # Runs whose wait is decided and that did not continue yet, or that could not be checked.
        self._to_check_next_round: set[str] = set()
        # All waits with a deadline up to this time have been processed.
        self._due_until = 0.0
        # Waits that this gateway has expired, and that are perhaps still open in the index.
        self._expired_here: set[str] = set()
        # Waits that this gateway has ended, with what follows: nothing to check when the feed shows them.
        self._waits_ended_here: set[str] = set()
        # Waits that this gateway has reminded of or escalated, and that are perhaps still due in the index.
        self._notified_here: set[str] = set()
        # Ids and revisions of the waits that had an outbox at the last round.
        self._with_outbox: set[tuple[str, int]] = set()
        # Runs that have ended, and whose waits are to be closed.
        self._ended_runs: set[str] = set()
        # The connection's count of interruptions when waits were last expired.
        self._interruptions = 0
        self._reported_failure = False
        self.rounds = 0

    async def start(self) -> None:
        self._loop.start()

    async def close(self) -> None:
        await self._loop.close()

    def wake(self) -> None:
        """A wait has changed: there may be an earlier deadline."""
        self._loop.wake()

    def take(self, writes: Sequence[WaitWrite]) -> None:
        """These waits were written: called by their feed."""
        for write in writes:
            if write.wait_id in self._waits_ended_here:
                self._waits_ended_here.remove(write.wait_id)
            else:
                self._check_later(run_id_of_wait(write.wait_id))

    def check_everything(self) -> None:
        """Check all runs and waits in the next round, which begins at once."""
        self._next_round_at = self._next_check_all_at = 0.0
        self._loop.wake()

    def check_runs(self, run_ids: Iterable[str]) -> None:
        """Check these runs in a moment."""
        for run_id in run_ids:
            self._check_later(run_id)
        self._loop.wake()

    def _check_later(self, run_id: str) -> None:
        self._to_check.setdefault(run_id, time.monotonic() + self._grace_sec)

    def _on_ended_with_waits(self, run_id: str) -> None:
        self._ended_runs.add(run_id)
        self._loop.wake()

    async def _step(self) -> None:
        await self._connection.wait_ready()
        pause_sec = self._interval_sec
        if self._index.ready:
            duties = (
                self._notice_interruption,
                self._expire_due,
                self._notify_due,
                self._close_ended,
                self._check_due,
                self._round_if_due,
            )
            failures = [failure for duty in duties if (failure := await _failure_of(duty)) is not None]
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
        until_round = self._next_round_at - time.monotonic()
        until_check = next(iter(self._to_check.values()), self._next_round_at) - time.monotonic()
        until_deadline = until_round if deadline is None else deadline - self._clock()
        return max(_INDEX_LAG_SEC, min(until_round, until_check, until_deadline))

    async def _notice_interruption(self) -> None:
        if self._interruptions != self._connection.interruptions:
            # The server may have lost the write of an expiry, or of a continuation.
            self._interruptions = self._connection.interruptions
            self._expired_here = set()
            self._waits_ended_here = set()
            self._notified_here = set()
            # Perhaps before the index knows what was lost: when it does, everything is checked again.
            self.check_everything()

    async def _expire_due(self) -> None:
        now = self._clock()
        due = await self._index.due(now, _BATCH)
        # In the order of their deadlines.
        left = [wait_id for wait_id in due if wait_id not in self._expired_here]
        for start in range(0, len(left), READ_TOGETHER):
            await self._expire_some(left[start : start + READ_TOGETHER])
        self._expired_here = set(due)
        self._due_until = now if len(due) < _BATCH else 0.0

    async def _expire_some(self, wait_ids: Sequence[str]) -> None:
        # Read together, from any replica: many are due in the same minute, and hardly any was written since.
        waits, runs = await asyncio.gather(
            self._waits.find_many(wait_ids),
            self._continuations.parked_as_known([run_id_of_wait(wait_id) for wait_id in wait_ids]),
        )
        await self._for_each(
            lambda wait_id: self._expire(wait_id, waits.get(wait_id), runs.get(run_id_of_wait(wait_id))),
            wait_ids,
        )

    async def _expire(self, wait_id: str, wait: StoredWait | None, run: StoredRun | None) -> None:
        """`wait` and `run` are what was read of them; after a conflict both are read from the leader."""
        while wait is None or not await self._try_expire(wait, run):
            wait, run = await asyncio.gather(
                self._waits.find_from_leader(wait_id),
                self._continuations.read_parked_run(run_id_of_wait(wait_id)),
            )
            if wait is None:
                return

    async def _try_expire(self, wait: StoredWait, run: StoredRun | None) -> bool:
        """Expire the wait if it is due; false when it was written since it was read: it may still be open."""
        now = self._clock()
        if wait.record.state is not WaitState.OPEN or now < wait.record.deadline_at:
            return True
        return await self._end(wait, expired(wait.record, at=now), run)

    async def _end(self, wait: StoredWait, over: WaitRecord, run: StoredRun | None) -> bool:
        """Write the end of the wait and continue its run; false when the wait was written since."""
        run_id, is_complete = over.run_id, False
        # The feed may show it before the run has continued.
        self._waits_ended_here.add(over.wait_id)
        try:
            if not await self._continuations.write_transition(wait, over):
                return False
            is_complete = await self._continuations.continue_run(run_id, decided=over, known_run=run)
            return True
        finally:
            if not is_complete:
                self._waits_ended_here.discard(over.wait_id)
                self._check_later(run_id)

    async def _notify_due(self) -> None:
        """Record the reminders and escalations that are due; each once, by compare-and-set on the wait."""
        due = set(await self._index.notices_due(self._clock(), _BATCH))
        await self._for_each(self._notify, due - self._notified_here)
        self._notified_here = due

    async def _notify(self, wait_id: str) -> None:
        while (wait := await self._waits.find_from_leader(wait_id)) is not None:
            due = due_notice(wait.record, at=self._clock())
            if due is None:
                return
            # After a conflict, or the first of two, it is read again.
            await self._continuations.write_transition(wait, *due)

    async def _close_ended(self) -> None:
        ended, self._ended_runs = self._ended_runs, set()
        await self._for_each(self._continuations.close_waits, ended)

    async def _check_due(self) -> None:
        """Check the runs that were written a moment ago, or whose waits were."""
        now = time.monotonic()
        due = [run_id for run_id, _ in takewhile(lambda each: each[1] <= now, self._to_check.items())]
        for start in range(0, len(due), _BATCH):
            some = due[start : start + _BATCH]
            for run_id in some:
                del self._to_check[run_id]
            try:
                await self._check(some)
            except (NatsUnavailable, IndexNotReady):
                self._to_check_next_round.update(some)
                raise

    async def _round_if_due(self) -> None:
        if time.monotonic() < self._next_round_at:
            return
        self._next_round_at = time.monotonic() + self._interval_sec
        await self._flush_outboxes()
        again, self._to_check_next_round = self._to_check_next_round, set()
        for run_id in again:
            self._check_later(run_id)
        # Empty until the feed of runs has been read once.
        if time.monotonic() >= self._next_check_all_at and self._runs.bucket_created:
            # Before it, so that `check_everything` is not forgotten if it is called meanwhile.
            self._next_check_all_at = time.monotonic() + self._check_all_sec
            try:
                await self._check_all()
            except (NatsUnavailable, IndexNotReady):
                self._next_check_all_at = 0.0
                raise
        self.rounds += 1

    async def _flush_outboxes(self) -> None:
        """Publish what has been in an outbox since the last round: its writer did not."""
        before, self._with_outbox = self._with_outbox, set(await self._index.with_outbox(_BATCH))
        unpublished = {wait_id for wait_id, _ in before & self._with_outbox}
        await self._for_each(self._continuations.flush_outbox, unpublished)

    async def _check_all(self) -> None:
        last = ""
        while found := await self._index.open_after(last, _BATCH):
            last = found[-1]
            await self._close_unknown({run_id_of_wait(wait_id) for wait_id in found})
        async for group in self._runs.groups():
            await self._continue(group)

    async def _check(self, run_ids: Sequence[str]) -> None:
        known = [run for run_id in run_ids if (run := self._runs.get(run_id)) is not None]
        if len(known) < len(run_ids) and self._runs.bucket_created:
            unknown = await self._index.asking_among([each for each in run_ids if each not in self._runs])
            await self._close_unknown(unknown)
        await self._continue(known)

    async def _close_unknown(self, run_ids: Iterable[str]) -> None:
        """Close the waits of runs that have ended, or were deleted."""
        # `close_waits` asks NATS whether such a run has ended: an unknown one may be new.
        unknown = [run_id for run_id in run_ids if run_id not in self._runs]
        await self._for_each(self._continuations.close_waits, unknown)

    async def _continue(self, runs: Sequence[OpenRun]) -> None:
        """Continue the runs whose waits are decided, or remove the waits from those that are queued again."""
        asking = [run for run in runs if run.state.open_waits and run.state.status in MAY_HAVE_OPEN_WAITS]
        if not asking:
            return
        named = [wait.wait_id for run in asking for wait in run.state.open_waits]
        still_open = await self._index.open_among(named)
        decided = [run for run in asking if any(w.wait_id not in still_open for w in run.state.open_waits)]
        overdue = [run for run in decided if run.silent_sec > self._grace_sec]
        self._to_check_next_round.update(run.run_id for run in decided)
        if not overdue:
            return
        await self._queued.compare(await self._queued.count())
        if not all(map(self._has_job, overdue)):
            async for _ in self._queued.read():
                pass
        with_job = {run.run_id for run in overdue if self._has_job(run)}
        await self._for_each(
            lambda run_id: self._continuations.continue_run(run_id, job_is_queued=run_id in with_job),
            [run.run_id for run in overdue],
        )

    async def _for_each(self, act: Callable[[str], Awaitable[object]], ids: Iterable[str]) -> None:
        await for_each_wait(act, ids, urgent=self._connection.urgent)

    def _has_job(self, run: OpenRun) -> bool:
        return self._queued.is_queued(run.run_id, min_generation=run.state.generation)


async def _failure_of(duty: Callable[[], Awaitable[None]]) -> PyocoError | None:
    try:
        await duty()
    except (NatsUnavailable, IndexNotReady) as error:
        return error
    return None
