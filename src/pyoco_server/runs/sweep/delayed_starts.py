"""Runs with a later start: each is released when its time has come.

A release is a compare-and-set from SCHEDULED to PENDING, then the publish of the job. Every gateway does it,
and one of them wins. If that one is killed in between, the sweep finds a PENDING run without a job.
"""

import asyncio
import heapq
import logging
from typing import Final

from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.models import RunStatus
from pyoco_server.runs.sweep.open_runs import OpenRuns
from pyoco_server.runs.sweep.run_repair import RunRepairer

log = logging.getLogger(__name__)

# How many are released in one call of the timekeeper, and at the same time.
_BATCH: Final = 256
_CONCURRENT: Final = 32
# After an unexpected error with one of them.
_RETRY_SEC: Final = 5.0


class DelayedStarts:
    """A source of the timekeeper."""

    name = "delayed starts"

    def __init__(self, repairer: RunRepairer, runs: OpenRuns) -> None:
        self._repairer = repairer
        self._runs = runs
        # The start and id of each. One that was cancelled or released is found out when its time comes.
        self._queue: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, run_id: str, start_at: float) -> bool:
        """Whether it is the next one, so that the timekeeper has to be woken."""
        heapq.heappush(self._queue, (start_at, run_id))
        return self._queue[0] == (start_at, run_id)

    async def run_due(self, now: float) -> float | None:
        due: dict[str, float] = {}
        while self._queue and self._queue[0][0] <= now and len(due) < _BATCH:
            start_at, run_id = heapq.heappop(self._queue)
            if self._is_scheduled(run_id):
                due[run_id] = start_at
        waiting = list(due)
        while waiting:
            some, waiting = waiting[:_CONCURRENT], waiting[_CONCURRENT:]
            outcomes = await asyncio.gather(
                *(self._repairer.release(run_id, now) for run_id in some), return_exceptions=True
            )
            for run_id, outcome in zip(some, outcomes, strict=True):
                if isinstance(outcome, NatsUnavailable):
                    for each in (run_id, *waiting):
                        self.add(each, due[each])
                elif isinstance(outcome, BaseException):
                    log.error("a run cannot be released", exc_info=outcome, extra={"run_id": run_id})
                    self.add(run_id, now + _RETRY_SEC)
            for outcome in outcomes:
                if isinstance(outcome, NatsUnavailable):
                    raise outcome
        return self._queue[0][0] if self._queue else None

    def _is_scheduled(self, run_id: str) -> bool:
        run = self._runs.get(run_id)
        return run is not None and run.state.status == RunStatus.SCHEDULED
