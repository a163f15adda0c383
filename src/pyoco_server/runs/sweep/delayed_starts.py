"""Runs with a later start: each is released when its time has come.

A release is a compare-and-set from SCHEDULED to PENDING, then the publish of the job. Every gateway does it,
and one of them wins. If that one is killed in between, the sweep finds a PENDING run without a job.
"""

import heapq
import logging
from collections.abc import Sequence
from typing import Final

from pyoco_server.aio.groups import in_groups
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.models import RunStatus
from pyoco_server.runs.sweep.open_runs import OpenRuns
from pyoco_server.runs.sweep.run_repair import RunRepairer

log = logging.getLogger(__name__)

# How many are released in one call of the timekeeper, and at the same time; then requests have the gateway
# for this share of the time that it took, also while ten thousand runs are due.
_BATCH: Final = 256
_CONCURRENT: Final = 32
_PAUSE_SHARE: Final = 1.0
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
        left = set(due := self._take_due(now))

        async def release(start: tuple[float, str]) -> bool:
            return await self._repairer.release(start[1], now)

        async for group in in_groups(release, due, size=_CONCURRENT, pause_share=_PAUSE_SHARE):
            left.difference_update(start for start, _ in group)
            outages = [outcome for _, outcome in group if isinstance(outcome, NatsUnavailable)]
            self._queue_again(group, now)
            if outages:
                for start in left:
                    heapq.heappush(self._queue, start)
                raise outages[0]
        return self._queue[0][0] if self._queue else None

    def _take_due(self, now: float) -> list[tuple[float, str]]:
        """The first ones; each once, also if it was written twice."""
        due: dict[str, float] = {}
        while self._queue and self._queue[0][0] <= now and len(due) < _BATCH:
            start_at, run_id = heapq.heappop(self._queue)
            if self._is_scheduled(run_id):
                due[run_id] = start_at
        return [(start_at, run_id) for run_id, start_at in due.items()]

    def _queue_again(
        self, released: Sequence[tuple[tuple[float, str], bool | BaseException]], now: float
    ) -> None:
        """Put back those that were not released."""
        for start, outcome in released:
            if isinstance(outcome, NatsUnavailable):
                heapq.heappush(self._queue, start)
            elif isinstance(outcome, BaseException):
                log.error("a run cannot be released", exc_info=outcome, extra={"run_id": start[1]})
                heapq.heappush(self._queue, (now + _RETRY_SEC, start[1]))

    def _is_scheduled(self, run_id: str) -> bool:
        run = self._runs.get(run_id)
        return run is not None and run.state.status == RunStatus.SCHEDULED
