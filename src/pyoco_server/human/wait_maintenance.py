"""Looks after waits: expires them in time, and does what a gateway that has died left undone.

Every gateway has one, and they need not agree: each act is a compare-and-set, or may be done twice. A timer
makes an expiry prompt; what counts is the look at every wait and every waiting run, again and again.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final, Protocol

from pyoco_server.aio.background import repeat
from pyoco_server.broker.client.connection import Connection, PayloadTooLarge
from pyoco_server.broker.queue.queued_runs import QueuedRuns
from pyoco_server.broker.stores.wait_store import WaitStore
from pyoco_server.errors import IndexNotReady, NatsUnavailable, PyocoError
from pyoco_server.errors.error_table import Err
from pyoco_server.human.continuation import Continuations
from pyoco_server.human.wait_transitions import expired
from pyoco_server.records.models import RunStatus
from pyoco_server.records.wait_models import WaitState, run_id_of
from pyoco_server.runs.sweep.open_runs import OpenRun, OpenRuns

log = logging.getLogger(__name__)

# How many waits or runs are dealt with at once, and how many expired waits are asked for at a time.
_AT_ONCE: Final = 32
_DUE: Final = 1000
# The index learns of a decision a moment after it was made.
_INDEX_SEC: Final = 0.05
# Who has just decided is about to do what follows.
_PATIENCE_SEC: Final = 1.0


class KnownWaits(Protocol):
    """What the caretaker asks the index of waits."""

    @property
    def ready(self) -> bool: ...

    async def due(self, now: float, limit: int) -> list[str]:
        """The open waits whose deadline has passed, the oldest deadline first."""
        ...

    async def next_deadline(self, after: float) -> float | None:
        """The first deadline of an open wait behind this time."""
        ...

    async def open_waits(self) -> set[str]:
        """The ids of all open waits."""
        ...

    async def with_outbox(self, limit: int) -> list[tuple[str, int]]:
        """The waits with events that are perhaps unpublished, with their revisions; the oldest first."""
        ...


class WaitCaretaker:
    """Works in the background, from `start` to `close`."""

    def __init__(
        self,
        connection: Connection,
        index: KnownWaits,
        open_runs: OpenRuns,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._connection = connection
        self._index = index
        self._runs = open_runs
        self._clock = clock
        self._interval_sec = connection.config.sweep_interval_sec
        self._patience_sec = min(_PATIENCE_SEC, self._interval_sec)
        self._waits = WaitStore(connection)
        self._continuations = Continuations(connection)
        self._queued = QueuedRuns(connection)
        # The job of a run that begins to wait has left the queue.
        open_runs.on_waiting(self._queued.forget_before)
        open_runs.on_over(self._queued.forget)
        open_runs.on_unanswered(self._unanswered)
        self._stirred = asyncio.Event()
        self._look_at = 0.0
        # Up to when it was asked what is due.
        self._due_until = 0.0
        # Of what the index says that it is due, what has been dealt with.
        self._expired: set[str] = set()
        # Waits that had an outbox at the last look, at these revisions.
        self._with_outbox: set[tuple[str, int]] = set()
        # Runs that are over, and whose waits are to be closed.
        self._ended: set[str] = set()
        # The connection's count of interruptions when waits were last expired.
        self._interruptions = 0
        self._told_trouble = False
        # How many looks at everything there were.
        self.rounds = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(repeat("wait caretaker", self._step), name="wait-caretaker")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def poke(self) -> None:
        """A wait has changed: there may be an earlier deadline."""
        self._stirred.set()

    def _unanswered(self, run_id: str) -> None:
        self._ended.add(run_id)
        self._stirred.set()

    async def _step(self) -> None:
        await self._connection.wait_ready()
        self._stirred.clear()
        pause_sec = self._interval_sec
        if self._index.ready:
            jobs = (
                self._expire_due,
                self._close_ended,
                self._publish_if_it_is_time,
                self._look_if_it_is_time,
            )
            # One that fails keeps none of the others from being done.
            troubles = [trouble for job in jobs if (trouble := await _trouble_with(job)) is not None]
            if troubles and not self._told_trouble:
                spec = Err.NATS_UNAVAILABLE
                log.warning("waits are not looked after: %s", troubles[0], extra=spec.log_fields())
            self._told_trouble = bool(troubles)
            if not troubles:
                with suppress(IndexNotReady):
                    pause_sec = await self._pause_sec()
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_sec):
                await self._stirred.wait()

    async def _pause_sec(self) -> float:
        """Until the next deadline; one that comes early finds nothing due, and comes here again."""
        # What was due then is dealt with: one that cannot be written must not keep us awake.
        deadline = await self._index.next_deadline(self._due_until)
        until_look = self._look_at - time.monotonic()
        until_deadline = until_look if deadline is None else deadline - self._clock()
        return max(_INDEX_SEC, min(until_look, until_deadline))

    # Expiry

    async def _expire_due(self) -> None:
        now = self._clock()
        if self._interruptions != self._connection.interruptions:
            # An expiry may be among the writes that a server has lost.
            self._interruptions = self._connection.interruptions
            self._expired = set()
        due = set(await self._index.due(now, _DUE))
        await _some_at_a_time(self._expire, due - self._expired)
        self._expired = due
        self._due_until = now if len(due) < _DUE else 0.0

    async def _expire(self, wait_id: str) -> None:
        while True:
            wait = await self._waits.get_from_leader(wait_id)
            now = self._clock()
            if wait is None or wait.record.state is not WaitState.OPEN or now < wait.record.deadline_at:
                return
            # A write in between need not be a decision.
            if await self._continuations.decide(wait, expired(wait.record, at=now)):
                await self._continuations.continue_run(run_id_of(wait_id))
                return

    # What is left undone

    async def _close_ended(self) -> None:
        """At once for those that the feed tells of; the others are found by the look."""
        ended, self._ended = self._ended, set()
        await _some_at_a_time(self._continuations.close_waits, ended)

    async def _publish_if_it_is_time(self) -> None:
        """Publish what has been in an outbox since the last look: whoever put it there has had its time."""
        if time.monotonic() < self._look_at:
            return
        before, self._with_outbox = self._with_outbox, set(await self._index.with_outbox(_DUE))
        left_over = {wait_id for wait_id, _ in before & self._with_outbox}
        await _some_at_a_time(self._continuations.publish_left_over, left_over)

    async def _look_if_it_is_time(self) -> None:
        if time.monotonic() >= self._look_at:
            await self._look()

    async def _look(self) -> None:
        self._look_at = time.monotonic() + self._interval_sec
        open_waits = await self._index.open_waits()
        # Before the first look into the bucket, no run is known.
        if self._runs.created:
            # Which are over is asked of NATS: one that is not known may be new.
            asking = map(run_id_of, open_waits)
            unknown = {run_id for run_id in asking if run_id not in self._runs}
            await _some_at_a_time(self._continuations.close_waits, unknown)
            await self._continue(open_waits)
        self.rounds += 1

    async def _continue(self, open_waits: set[str]) -> None:
        """Runs that wait for something which is decided, and whose job is not in the queue."""
        stuck: list[OpenRun] = []
        async for group in self._runs.groups():
            stuck += (run for run in group if self._waits_for_nothing(run, open_waits))
        if not stuck:
            return
        await self._queued.compare(await self._queued.count())
        if not all(map(self._has_job, stuck)):
            async for _ in self._queued.look():
                pass
        left = [run.run_id for run in stuck if not self._has_job(run)]
        await _some_at_a_time(self._continuations.continue_run, left)

    def _has_job(self, run: OpenRun) -> bool:
        return self._queued.has_job(run.run_id, run.state.generation)

    def _waits_for_nothing(self, run: OpenRun, open_waits: set[str]) -> bool:
        return (
            run.state.status == RunStatus.WAITING_HUMAN
            and run.quiet_sec > self._patience_sec
            and any(wait.wait_id not in open_waits for wait in run.state.open_waits)
        )


async def _trouble_with(job: Callable[[], Awaitable[None]]) -> PyocoError | None:
    try:
        await job()
    except (NatsUnavailable, IndexNotReady) as error:
        return error
    return None


async def _some_at_a_time(act: Callable[[str], Awaitable[None]], ids: Iterable[str]) -> None:
    """Each is seen to its end; one that fails does not keep the others from theirs."""
    waiting = list(ids)
    for start in range(0, len(waiting), _AT_ONCE):
        some = waiting[start : start + _AT_ONCE]
        for each, outcome in zip(
            some, await asyncio.gather(*map(act, some), return_exceptions=True), strict=True
        ):
            if isinstance(outcome, PayloadTooLarge):
                log.error("what is to be written of a wait is too large (%s): %s", each, outcome)
            elif isinstance(outcome, NatsUnavailable):
                raise outcome
            elif isinstance(outcome, BaseException):
                log.error("a wait cannot be dealt with (%s)", each, exc_info=outcome)
