"""The sweep: it ends or mends the runs that nobody else will.

Every gateway has one, and a lease keeps it to one at a time. That is for economy only: each act is a
compare-and-set on what was seen, and a job that is published twice is executed once.
"""

import asyncio
import logging
from collections import Counter

from pyoco_server.aio.background import repeat
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.lease import Lease
from pyoco_server.broker.queue.advisories import Advisories
from pyoco_server.broker.queue.queued_runs import QueuedRuns
from pyoco_server.errors import IndexNotReady, NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.runs.index.run_lists import RunLists
from pyoco_server.runs.sweep.exhausted_deliveries import GivenUpJobs, LastDeliveries
from pyoco_server.runs.sweep.open_runs import OpenRuns
from pyoco_server.runs.sweep.orphaned_runs import LeftAlone
from pyoco_server.runs.sweep.retention import Retention
from pyoco_server.runs.sweep.run_repair import Mender
from pyoco_server.runs.sweep.sweep_rules import Patience
from pyoco_server.runs.sweep.worker_record_retention import GoneWorkers

log = logging.getLogger(__name__)

# The lease ends when the holder has missed this many rounds.
_MISSED_ROUNDS = 3
# Advisories come in groups; one round deals with all of them.
_GATHER_SEC = 0.2


class _LeaseLost(Exception):
    """Another gateway sweeps now."""


class Sweeper:
    """Looks after the runs in the background, from `start` to `close`."""

    def __init__(self, connection: Connection, lists: RunLists, runs: OpenRuns) -> None:
        config = connection.config
        self._connection = connection
        self._interval_sec = config.sweep_interval_sec
        self.lease = Lease(connection, "sweep", ttl_sec=_MISSED_ROUNDS * config.sweep_interval_sec)
        patience = Patience.of(config)
        self._mender = Mender(connection)
        self._lists = lists
        self._runs = runs
        self._queued = QueuedRuns(connection)
        runs.on_over(self._queued.forget)
        # Its job has left the queue as well.
        runs.on_waiting(self._queued.forget_before)
        self._retention = Retention(connection, self._runs)
        self._gone_workers = GoneWorkers(connection)
        self._advisories = Advisories(connection)
        last = LastDeliveries(self._mender, self._queued)
        self._given_up = GivenUpJobs(self._mender, self._runs, last, patience)
        self._left_alone = LeftAlone(self._mender, self._runs, self._queued, last, patience)
        self._advised = asyncio.Event()
        self._advisories.on_advisory(self._advised.set)
        # Of which connection the observations are.
        self._link_since = 0.0
        self._told_outage = False
        # How many were made or tried.
        self.rounds = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def actions(self) -> Counter[str]:
        """What was done by this gateway, and how often."""
        return self._mender.actions

    async def start(self) -> None:
        self._task = asyncio.create_task(repeat("sweep", self._step), name="sweep")

    async def close(self) -> None:
        """Stop, and let another gateway take over at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._connection.ready:
            try:
                await self.lease.release()
            except NatsUnavailable as error:
                log.info("the next gateway sweeps when the lease has ended: %s", error)

    async def _step(self) -> None:
        await self._connection.wait_ready()
        if self._link_since != self._connection.state.since:
            # Workers could not write while there was no NATS: their silence until now says nothing.
            self._link_since = self._connection.state.since
            self._runs.observe_anew()
        try:
            await self._round()
        except _LeaseLost:
            log.info("another gateway sweeps now")
        except IndexNotReady as error:
            log.debug("the sweep waits: %s", error)
        except NatsUnavailable as error:
            self._runs.observe_anew()
            if not self._told_outage:
                log.warning("the sweep pauses: %s", error, extra=Err.NATS_UNAVAILABLE.log_fields())
            self._told_outage = True
        else:
            self._told_outage = False
        self.rounds += 1
        await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._interval_sec):
                await self._advised.wait()
                await asyncio.sleep(_GATHER_SEC)
        except TimeoutError:
            log.debug("nothing was advised; the next round is due")
        self._advised.clear()

    async def _round(self) -> None:
        # Before all open runs are known, there is nothing to decide on.
        await self._lists.caught_up()
        was_held = self.lease.held
        if not await self.lease.hold():
            return
        if not was_held:
            log.info("this gateway sweeps now")
            self._runs.observe_anew()
        counted = await self._queued.count()
        await self._lists.caught_up()
        await self._queued.compare(counted)
        await self._deal_with_advisories()
        await self._left_alone.mend(self._still_ours)
        await self._remove_old()

    async def _still_ours(self) -> None:
        if not await self.lease.hold():
            raise _LeaseLost

    async def _deal_with_advisories(self) -> None:
        async for job in self._advisories.unhandled():
            await self._still_ours()
            if await self._given_up.settle(job):
                await self._advisories.done(job)

    async def _remove_old(self) -> None:
        async for count in self._retention.remove_ended():
            self.actions["removed"] += count
            await self._still_ours()
        async for _ in self._retention.remove_traces():
            await self._still_ours()
        if count := await self._gone_workers.remove():
            self.actions["worker_removed"] += count
