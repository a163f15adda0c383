"""Runs with a later start: each is released when its time has come.

A release is a compare-and-set from SCHEDULED to PENDING, then the publish of the job. Every gateway does it,
and one of them wins. If that one is killed in between, the sweep finds a PENDING run without a job.
"""

import heapq
import logging
from collections.abc import Sequence
from typing import Final

from pyoco_server.aio.parallel import READ_TOGETHER, for_each_item
from pyoco_server.aio.urgent_work import UrgentWork
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.runs.lifecycle.unowned_runs import UnownedRuns
from pyoco_server.runs.open_runs import OpenRuns

log = logging.getLogger(__name__)

# How many are released in one call of the timekeeper, and at once: few, so that requests come between them,
# also while ten thousand runs are due.
_BATCH: Final = 256
_AT_ONCE: Final = 8
# After an unexpected error with one of them.
_RETRY_SEC: Final = 5.0


class DelayedStarts:
    """Releases each run when its start has come. Called by the timekeeper."""

    name = "delayed starts"

    def __init__(self, unowned_runs: UnownedRuns, runs: OpenRuns, urgent: UrgentWork) -> None:
        self._unowned_runs = unowned_runs
        self._urgent = urgent
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
        left = self._take_due(now)
        try:
            due = list(left)
            for start in range(0, len(due), READ_TOGETHER):
                await self._release(due[start : start + READ_TOGETHER], now, left)
        finally:
            for run_id, start_at in left.items():
                heapq.heappush(self._queue, (start_at, run_id))
        return self._queue[0][0] if self._queue else None

    async def _release(self, run_ids: Sequence[str], now: float, left: dict[str, float]) -> None:
        """Release these, and take each that is done from `left`; NatsUnavailable ends it."""
        outages: list[NatsUnavailable] = []
        read = await self._unowned_runs.signed_runs(run_ids)

        async def release(run_id: str) -> bool:
            try:
                await self._unowned_runs.release(run_id, now, read.get(run_id))
            except NatsUnavailable as error:
                outages.append(error)
                return False
            except Exception:
                log.exception("a run cannot be released", extra={"run_id": run_id})
                heapq.heappush(self._queue, (now + _RETRY_SEC, run_id))
            del left[run_id]
            return True

        await for_each_item(release, run_ids, at_once=_AT_ONCE, urgent=self._urgent)
        if outages:
            raise outages[0]

    def _take_due(self, now: float) -> dict[str, float]:
        """The first ones, with their starts; each once, also if it was written twice."""
        due: dict[str, float] = {}
        while self._queue and self._queue[0][0] <= now and len(due) < _BATCH:
            start_at, run_id = heapq.heappop(self._queue)
            if self._is_scheduled(run_id):
                due[run_id] = start_at
        return due

    def _is_scheduled(self, run_id: str) -> bool:
        run = self._runs.get(run_id)
        return run is not None and run.state.status == RunStatus.SCHEDULED
