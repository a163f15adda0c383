"""Runs with a later start: each is released when its time has come.

A release is a compare-and-set from SCHEDULED to PENDING, then the publish of the job. Every gateway does it,
and one of them wins. If that one is killed in between, the sweep finds a PENDING run without a job.
"""

import asyncio
import heapq
import logging
import time
from collections.abc import Sequence
from typing import Final

from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.models import RunStatus
from pyoco_server.runs.sweep.open_runs import OpenRuns
from pyoco_server.runs.sweep.run_repair import RunRepairer

log = logging.getLogger(__name__)

# How many are released in one call of the timekeeper, and at the same time.
_BATCH: Final = 256
_CONCURRENT: Final = 8
# As long as these took: requests get half of the gateway's time, also while ten thousand runs are due.
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
        due = self._take_due(now)
        while due:
            some, due = due[:_CONCURRENT], due[_CONCURRENT:]
            began = time.monotonic()
            try:
                await self._release(some, now)
            except NatsUnavailable:
                for start in due:
                    heapq.heappush(self._queue, start)
                raise
            if due:
                await asyncio.sleep((time.monotonic() - began) * _PAUSE_SHARE)
        return self._queue[0][0] if self._queue else None

    def _take_due(self, now: float) -> list[tuple[float, str]]:
        """The first ones; each once, also if it was written twice."""
        due: dict[str, float] = {}
        while self._queue and self._queue[0][0] <= now and len(due) < _BATCH:
            start_at, run_id = heapq.heappop(self._queue)
            if self._is_scheduled(run_id):
                due[run_id] = start_at
        return [(start_at, run_id) for run_id, start_at in due.items()]

    async def _release(self, starts: Sequence[tuple[float, str]], now: float) -> None:
        """NatsUnavailable: those that were not released are in the queue again."""
        releases = (self._repairer.release(run_id, now) for _, run_id in starts)
        outage: NatsUnavailable | None = None
        for start, outcome in zip(
            starts, await asyncio.gather(*releases, return_exceptions=True), strict=True
        ):
            if isinstance(outcome, NatsUnavailable):
                heapq.heappush(self._queue, start)
                outage = outcome
            elif isinstance(outcome, BaseException):
                log.error("a run cannot be released", exc_info=outcome, extra={"run_id": start[1]})
                heapq.heappush(self._queue, (now + _RETRY_SEC, start[1]))
        if outage is not None:
            raise outage

    def _is_scheduled(self, run_id: str) -> bool:
        run = self._runs.get(run_id)
        return run is not None and run.state.status == RunStatus.SCHEDULED
