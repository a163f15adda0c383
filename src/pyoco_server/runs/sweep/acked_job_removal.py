"""Removes the jobs that NATS has kept although their consumer never delivers them again.

They would be counted in the queue for ever, and a run whose only job is one of them would never start.
"""

import logging

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import StreamMessage
from pyoco_server.broker.queue.acked_jobs import AckedJobs
from pyoco_server.broker.queue.queued_runs import QueueCount
from pyoco_server.broker.queue.work_queue import head_of
from pyoco_server.broker.stores.runs.run_store import StoredRun
from pyoco_server.errors import UnreadableRecord
from pyoco_server.runs.lifecycle.unowned_runs import UnownedRuns
from pyoco_server.runs.open_runs import OpenRuns
from pyoco_server.runs.sweep.exhausted_deliveries import UndeliverableJobs, is_job_of
from pyoco_server.runs.sweep.orphaned_runs import CheckLease
from pyoco_server.runs.sweep.sweep_rules import Repair, SilenceThresholds, repair_for

log = logging.getLogger(__name__)


class AckedJobRemoval:
    def __init__(
        self,
        connection: Connection,
        unowned_runs: UnownedRuns,
        runs: OpenRuns,
        undeliverable_jobs: UndeliverableJobs,
        thresholds: SilenceThresholds,
    ) -> None:
        self._jobs = AckedJobs(connection)
        self._unowned_runs = unowned_runs
        self._runs = runs
        self._undeliverable_jobs = undeliverable_jobs
        self._thresholds = thresholds

    async def remove(self, counted: QueueCount, check_lease: CheckLease) -> None:
        """Remove each one that no run needs, and replace one that an orphaned run needs."""
        async for message in self._jobs.found_twice(counted):
            await check_lease()
            head = head_of(message.data)
            try:
                stored = await self._unowned_runs.store.get_from_leader(head.run_id) if head.run_id else None
            except UnreadableRecord:
                # A newer version may read it, and knows whether the run needs the job.
                continue
            if stored is None or not is_job_of(message.sequence, head.generation, stored.snapshot):
                await self._remove(message, head.run_id)
            elif await self._is_orphaned(stored):
                why = "the run's job was acknowledged, and is not delivered again: published a new one"
                await self._undeliverable_jobs.replace(stored, message.sequence, why)

    async def _remove(self, message: StreamMessage, run_id: str) -> None:
        await self._unowned_runs.queue.remove(message.sequence)
        self._unowned_runs.actions["acked_job_removed"] += 1
        log.warning(
            "removed the message %d, which NATS had kept although it was acknowledged",
            message.sequence,
            extra={"run_id": run_id, "tag": message.subject.rpartition(".")[2]},
        )

    async def _is_orphaned(self, stored: StoredRun) -> bool:
        """Whether it waits for this job; with exhausted deliveries it ends, or gets a new one elsewhere."""
        run = self._runs.get(stored.snapshot.run_id)
        if run is None or run.revision != stored.revision:
            return False
        limits = await self._unowned_runs.queue.limits(run.state.tag)
        return repair_for(run.state, run.silent_sec, limits, self._thresholds) is Repair.REQUEUE
