"""Following the log of a run to its end: each line once, in order, as soon as it is stored.

Hints only say when to read; lines are always read from the stream after the last position. So an outage, a
lost hint and a slow reader all have the same effect: the next read continues where the last one ended.
"""

import logging
from collections.abc import AsyncGenerator, Iterator
from typing import Final

from pyoco_server.broker.stores.runs.run_hints import RunWatch, RunWatches
from pyoco_server.broker.stores.runs.run_log_store import RunLogs
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.errors import NatsUnavailable, UnreadableRecord
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.runs.watch.log_reading import START, LogFilter, LogPosition, LogReader, PlacedLine

log = logging.getLogger(__name__)

_LINES_AT_ONCE: Final = 1000
# A hint may have been lost.
_POLL_SEC: Final = 15.0
_RETRY_SEC: Final = 0.5
# A hint arrives before its lines are stored, in a cluster long before.
_REREAD_SEC: Final = (0.05, 0.25, 1.0)


class LogFollower:
    """Follows one run. Once `lines` has ended, `status` is the final one; None: the run was deleted."""

    def __init__(
        self,
        logs: RunLogs,
        runs: RunStore,
        watches: RunWatches,
        run_id: str,
        *,
        after: LogPosition = START,
        line_filter: LogFilter | None = None,
    ) -> None:
        self.status: RunStatus | None = None
        self._logs = logs
        self._reader = LogReader(logs, run_id, after=after, line_filter=line_filter)
        self._interruptions = logs.interruptions
        self._runs = runs
        self._watches = watches
        self._run_id = run_id

    async def lines(self) -> AsyncGenerator[list[PlacedLine], None]:
        """Batches of lines; ends when the run has ended and all of its lines were returned."""
        async with self._watches.watching(self._run_id) as watch:
            pauses: Iterator[float] = iter(())
            while True:
                if watch.reset():
                    pauses = iter(_REREAD_SEC)
                try:
                    await self._check_truncated()
                    ended = await self._has_ended(watch)
                    page = await self._reader.page(_LINES_AT_ONCE, ended=ended)
                except NatsUnavailable as error:
                    log.debug("cannot read the run's log: %s", error, extra={"run_id": self._run_id})
                    watch.status = None
                    await watch.wait(_RETRY_SEC)
                    continue
                if page.lines:
                    yield page.lines
                if page.complete:
                    return
                if not page.moved:
                    # After the end there are no more hints, though a replica may have to catch up.
                    await watch.wait(next(pauses, _RETRY_SEC if ended else _POLL_SEC))

    async def _check_truncated(self) -> None:
        interruptions = self._logs.interruptions
        if interruptions != self._interruptions:
            await self._reader.check_truncated()
            self._interruptions = interruptions

    async def _has_ended(self, watch: RunWatch) -> bool:
        if watch.status is None:
            try:
                stored = await self._runs.get_from_leader(self._run_id)
            except UnreadableRecord:
                # It may never end; the client reads the run to see why.
                stored = None
            if stored is None:
                self.status = None
                return True
            watch.status = stored.snapshot.status
        self.status = watch.status
        return self.status.terminal
