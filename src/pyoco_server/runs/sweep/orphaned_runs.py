"""Runs that were left alone: found among the open ones, and each given what it needs."""

import logging
from collections.abc import Awaitable, Callable

from pyoco_server.broker.queue.queued_runs import QueuedRuns
from pyoco_server.broker.queue.work_queue import DeliveryLimits
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.models import Reason, RunSnapshot, RunStatus
from pyoco_server.runs.sweep.exhausted_deliveries import LastDeliveries
from pyoco_server.runs.sweep.open_runs import OpenRun, OpenRuns
from pyoco_server.runs.sweep.run_repair import Ending, Mender
from pyoco_server.runs.sweep.sweep_rules import Need, Patience, need_of

log = logging.getLogger(__name__)

# Raises when the work has become another's.
StillOurs = Callable[[], Awaitable[None]]


class LeftAlone:
    def __init__(
        self,
        mender: Mender,
        runs: OpenRuns,
        queued: QueuedRuns,
        last_deliveries: LastDeliveries,
        patience: Patience,
    ) -> None:
        self._mender = mender
        self._runs = runs
        self._queued = queued
        self._last_deliveries = last_deliveries
        self._patience = patience
        self._limits: dict[str, DeliveryLimits] = {}
        # The runs whose handling raised, at the revision for which that was logged.
        self._failed: dict[str, int] = {}

    async def mend(self, still_ours: StillOurs) -> None:
        """Look at every open run once."""
        self._limits.clear()
        self._failed = {run_id: seen for run_id, seen in self._failed.items() if run_id in self._runs}
        jobless: list[OpenRun] = []
        async for group in self._runs.groups():
            for run in group:
                need = Need.NOTHING if self._is_well(run) else await self._need(run)
                if need is Need.JOB and not self._has_job(run):
                    jobless.append(run)
                elif need not in (Need.NOTHING, Need.JOB):
                    await still_ours()
                    await self._give(run, need)
        if jobless:
            async for _ in self._queued.look():
                await still_ours()
        for run in jobless:
            if not self._has_job(run):
                await still_ours()
                await self._give(run, Need.JOB)

    def _is_well(self, run: OpenRun) -> bool:
        """Whether it waits in the queue, or was heard of lately: most are, and need no closer look."""
        if run.state.delivery is None and run.state.cancel_requested_at is None:
            return self._has_job(run) or run.quiet_sec < self._patience.unbegun_sec
        return run.quiet_sec < self._patience.least_sec

    def _has_job(self, run: OpenRun) -> bool:
        return self._queued.has_job(run.run_id, run.state.generation)

    async def _need(self, run: OpenRun) -> Need:
        need = need_of(run.state, run.quiet_sec, await self._limits_of(run.state.tag), self._patience)
        if need is Need.GIVE_UP:
            assert run.state.delivery is not None
            if not await self._mender.queue.holds(run.run_id, run.state.delivery[0]):
                return Need.JOB
        return need

    async def _limits_of(self, tag: str) -> DeliveryLimits:
        if tag not in self._limits:
            self._limits[tag] = await self._mender.queue.limits(tag)
        return self._limits[tag]

    async def _give(self, run: OpenRun, need: Need) -> None:
        """Act on the run if it is still as it was seen."""
        try:
            stored = await self._mender.stored(run.run_id, run.revision)
            if stored is None:
                # Removed, unreadable, or written since. A newer state that the feed has read meanwhile stays.
                self._runs.forget(run.run_id, run.revision)
            elif need is Need.GIVE_UP:
                assert stored.snapshot.delivery is not None
                await self._last_deliveries.settle(stored, *stored.snapshot.delivery)
            elif need is not Need.JOB:
                await self._mender.end(stored, _ending(need, stored.snapshot, run.quiet_sec))
            elif subject := await self._mender.give_job(stored):
                self._queued.add(run.run_id, subject, generation=stored.snapshot.generation)
        except NatsUnavailable:
            raise
        except Exception:
            # The others must not wait for this one. It is tried again after another silence of that length.
            if self._failed.get(run.run_id) != run.revision:
                log.exception("the sweep cannot deal with a run", extra={"run_id": run.run_id})
            self._failed[run.run_id] = run.revision
            run.reset_silence()


def _ending(need: Need, snapshot: RunSnapshot, quiet_sec: float) -> Ending:
    if snapshot.delivery is None:
        owner = "no worker had begun it"
    else:
        owner = f"worker {snapshot.worker_id} had it, and was silent for {quiet_sec:.0f} s"
    if need is Need.CANCEL:
        return Ending(RunStatus.CANCELLED, None, f"ended after the cancel without a worker: {owner}")
    error = f"the run took longer than its timeout_sec of {snapshot.timeout_sec:g} s; {owner}"
    return Ending(RunStatus.FAILED, Reason.TIMEOUT, error)
