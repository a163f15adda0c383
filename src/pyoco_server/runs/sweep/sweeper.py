"""The sweep: repairs orphaned runs and applies retention.

Every gateway has one, and a lease limits it to one at a time. That only saves work: each repair is a
compare-and-set, and a job that is published twice is executed once.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable

from pyoco_server.aio.background import BackgroundLoop
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.lease import Lease
from pyoco_server.broker.queue.advisories import Advisories
from pyoco_server.broker.queue.queued_runs import QueuedRuns
from pyoco_server.broker.storage.artifact_usage import ArtifactUsage
from pyoco_server.errors import IndexNotReady, NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.runs.index.run_lists import RunLists
from pyoco_server.runs.lifecycle.unowned_runs import UnownedRuns
from pyoco_server.runs.open_runs import OpenRuns
from pyoco_server.runs.sweep.acked_job_removal import AckedJobRemoval
from pyoco_server.runs.sweep.exhausted_deliveries import ExhaustedDeliveries, UndeliverableJobs
from pyoco_server.runs.sweep.orphaned_runs import OrphanedRuns
from pyoco_server.runs.sweep.retention import Retention, UnfinishedUploads, WorkerRecordRetention
from pyoco_server.runs.sweep.sweep_rules import SilenceThresholds, burst_wait_sec
from pyoco_server.runs.sweep.unsigned_runs import UnsignedRuns

log = logging.getLogger(__name__)

# The lease expires after this many missed rounds.
_MISSED_ROUNDS = 3
# Advisories come in groups; one round handles all of them.
_DEBOUNCE_SEC = 0.2


class _LeaseLost(Exception):
    """Another gateway has the lease."""


class Sweeper:
    def __init__(
        self,
        connection: Connection,
        lists: RunLists,
        runs: OpenRuns,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` says when a run with a later start is due."""
        config = connection.config
        self._connection = connection
        self._interval_sec = config.sweep_interval_sec
        self.lease = Lease(connection, "sweep", ttl_sec=_MISSED_ROUNDS * config.sweep_interval_sec)
        thresholds = SilenceThresholds.of(config)
        self.unowned_runs = UnownedRuns(connection)
        self._lists = lists
        self._runs = runs
        self._queued = QueuedRuns(connection, shared_id=runs.shared_id)
        runs.on_ended(self._queued.forget)
        # A waiting run has no job in the queue.
        runs.on_parked(self._queued.forget_before)
        self._unsigned = UnsignedRuns(connection, runs)
        self._retention = Retention(connection, self._runs)
        self._worker_records = WorkerRecordRetention(connection)
        self._uploads = UnfinishedUploads(connection)
        self._usage = ArtifactUsage(connection)
        self._advisories = Advisories(connection)
        self.undeliverable_jobs = undeliverable = UndeliverableJobs(self.unowned_runs, self._queued)
        self._exhausted = ExhaustedDeliveries(self.unowned_runs, self._runs, undeliverable, thresholds)
        self._acked = AckedJobRemoval(connection, self.unowned_runs, self._runs, undeliverable, thresholds)
        self._orphaned = OrphanedRuns(
            self.unowned_runs, self._runs, self._queued, undeliverable, thresholds, clock=clock
        )
        self._loop = BackgroundLoop("sweep", self._step)
        self._advisories.on_advisory(self._loop.wake)
        # Silence counts from this connect on.
        self._connected_since = 0.0
        self._outage_logged = False
        self.rounds = 0

    @property
    def actions(self) -> Counter[str]:
        """The repairs of this gateway, counted."""
        return self.unowned_runs.actions

    async def start(self) -> None:
        self._loop.start()

    async def close(self) -> None:
        """Stop, and release the lease to another gateway."""
        await self._loop.close()
        await self.lease.close()

    async def _step(self) -> None:
        await self._connection.wait_ready()
        if self._connected_since != self._connection.state.since:
            # Workers could not write during the outage either.
            self._connected_since = self._connection.state.since
            self._runs.reset_silence()
        try:
            await self._round()
        except _LeaseLost:
            log.info("lost the sweep lease to another gateway")
        except IndexNotReady as error:
            log.debug("the sweep waits: %s", error)
        except NatsUnavailable as error:
            self._runs.reset_silence()
            if not self._outage_logged:
                log.warning("the sweep pauses: %s", error, extra=Err.NATS_UNAVAILABLE.log_fields())
            self._outage_logged = True
        else:
            self._outage_logged = False
        self.rounds += 1
        if await self._loop.pause(self._interval_sec):
            await asyncio.sleep(_DEBOUNCE_SEC)

    async def _round(self) -> None:
        # A round needs the index, which then reads every run that is being submitted. The first one comes
        # with the first request.
        await self._connection.urgent.wait_for_burst_end(burst_wait_sec(self._interval_sec))
        # Until all open runs are known, nothing can be decided.
        await self._lists.caught_up()
        was_held = self.lease.held
        if not await self.lease.hold():
            return
        if not was_held:
            log.info("acquired the sweep lease")
            self._runs.reset_silence()
        # Before any repair, which needs the signature.
        await self._unsigned.sign()
        counted = await self._queued.count()
        await self._lists.caught_up()
        await self._queued.compare(counted)
        await self._handle_advisories()
        # After the advisories: a job whose deliveries are exhausted is handled by them.
        await self._acked.remove(counted, self._check_lease)
        await self._orphaned.repair(self._check_lease)
        await self._apply_retention()
        # After it: what was removed does not count.
        artifacts = await self._lists.artifacts()
        await self._usage.publish({tenant: counts.bytes for tenant, counts in artifacts.items()})

    async def _check_lease(self) -> None:
        if not await self.lease.hold():
            raise _LeaseLost

    async def _handle_advisories(self) -> None:
        async for job in self._advisories.unhandled():
            await self._check_lease()
            if await self._exhausted.settle(job):
                await self._advisories.done(job)

    async def _apply_retention(self) -> None:
        async for count in self._retention.remove_ended():
            self.actions["removed"] += count
            await self._check_lease()
        async for _ in self._retention.remove_markers():
            await self._check_lease()
        if count := await self._worker_records.remove():
            self.actions["worker_removed"] += count
        await self._uploads.remove()
