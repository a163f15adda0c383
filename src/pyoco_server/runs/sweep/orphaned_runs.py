"""Finding orphaned runs among the open ones, and repairing each."""

import logging
from collections.abc import Awaitable, Callable

from pyoco_server.broker.queue.queued_runs import QueuedRuns
from pyoco_server.broker.queue.tag_consumers import DeliveryLimits
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.run_models import Reason, RunSnapshot, RunStatus
from pyoco_server.runs.lifecycle.unowned_runs import Ending, UnownedRuns
from pyoco_server.runs.open_runs import OpenRun, OpenRuns
from pyoco_server.runs.sweep.exhausted_deliveries import UndeliverableJobs
from pyoco_server.runs.sweep.sweep_rules import Repair, SilenceThresholds, is_overdue, repair_for

log = logging.getLogger(__name__)

# Raises when another gateway has the lease.
CheckLease = Callable[[], Awaitable[None]]


class OrphanedRuns:
    def __init__(
        self,
        unowned_runs: UnownedRuns,
        runs: OpenRuns,
        queued: QueuedRuns,
        undeliverable_jobs: UndeliverableJobs,
        thresholds: SilenceThresholds,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._unowned_runs = unowned_runs
        self._runs = runs
        self._queued = queued
        self._undeliverable_jobs = undeliverable_jobs
        self._thresholds = thresholds
        self._clock = clock
        self._limits: dict[str, DeliveryLimits] = {}
        # The runs whose repair raised, at the revision for which that was logged.
        self._failed: dict[str, int] = {}

    async def repair(self, check_lease: CheckLease) -> None:
        """Check every open run once that is not parked."""
        self._limits.clear()
        self._failed = {run_id: seen for run_id, seen in self._failed.items() if run_id in self._runs}
        without_job: list[OpenRun] = []
        async for group in self._runs.active_groups():
            for run in group:
                repair = Repair.NONE if self._is_healthy(run) else await self._repair_for(run)
                if repair is Repair.REQUEUE and not self._is_queued(run):
                    without_job.append(run)
                elif repair not in (Repair.NONE, Repair.REQUEUE):
                    await check_lease()
                    await self._apply(run, repair)
        if without_job:
            async for _ in self._queued.read():
                await check_lease()
        for run in without_job:
            if not self._is_queued(run):
                await check_lease()
                await self._apply(run, Repair.REQUEUE)

    def _is_healthy(self, run: OpenRun) -> bool:
        """Whether it is queued, held, or was written recently: most are, and need no request."""
        if run.state.status == RunStatus.SCHEDULED:
            return not is_overdue(run.state, self._clock(), self._thresholds)
        if run.state.delivery is None and run.state.cancel_requested_at is None:
            return self._is_queued(run) or run.silent_sec < self._thresholds.unstarted_sec
        return run.silent_sec < self._thresholds.min_sec

    def _is_queued(self, run: OpenRun) -> bool:
        return self._queued.is_queued(run.run_id, min_generation=run.state.generation)

    async def _repair_for(self, run: OpenRun) -> Repair:
        if run.state.status == RunStatus.SCHEDULED:
            return Repair.RELEASE
        limits = await self._limits_of(run.state.tag)
        repair = repair_for(run.state, run.silent_sec, limits, self._thresholds)
        if repair is Repair.EXHAUSTED:
            assert run.state.delivery is not None
            if not await self._unowned_runs.queue.is_job_of(run.run_id, sequence=run.state.delivery.sequence):
                return Repair.REQUEUE
        return repair

    async def _limits_of(self, tag: str) -> DeliveryLimits:
        if tag not in self._limits:
            self._limits[tag] = await self._unowned_runs.queue.limits(tag)
        return self._limits[tag]

    async def _apply(self, run: OpenRun, repair: Repair) -> None:
        """Repair the run if it is still at the revision that was checked."""
        try:
            stored = await self._unowned_runs.stored(run.run_id, run.revision)
            if stored is None:
                # Deleted, invalid, or written since. A newer state that the feed has read meanwhile stays.
                self._runs.forget(run.run_id, run.revision)
            elif repair is Repair.EXHAUSTED:
                assert stored.snapshot.delivery is not None
                await self._undeliverable_jobs.settle(stored, *stored.snapshot.delivery)
            elif repair is Repair.RELEASE:
                await self._unowned_runs.release(run.run_id, self._clock())
            elif repair is not Repair.REQUEUE:
                await self._unowned_runs.end(stored, _ending(repair, stored.snapshot, run.silent_sec))
            elif subject := await self._unowned_runs.republish_job(stored):
                self._queued.add(run.run_id, subject, generation=stored.snapshot.generation)
        except NatsUnavailable:
            raise
        except Exception:
            # One run must not stop the sweep. It is tried again after the same silence.
            if self._failed.get(run.run_id) != run.revision:
                log.exception("the sweep cannot repair a run", extra={"run_id": run.run_id})
            self._failed[run.run_id] = run.revision
            run.reset_silence()


def _ending(repair: Repair, snapshot: RunSnapshot, silent_sec: float) -> Ending:
    if snapshot.delivery is None:
        owner = "no worker had begun it"
    else:
        owner = f"worker {snapshot.worker_id} had it, and was silent for {silent_sec:.0f} s"
    if repair is Repair.CANCEL:
        return Ending(RunStatus.CANCELLED, None, f"ended after the cancel without a worker: {owner}")
    error = f"the run took longer than its timeout_sec of {snapshot.timeout_sec:g} s; {owner}"
    return Ending(RunStatus.FAILED, Reason.TIMEOUT, error)
