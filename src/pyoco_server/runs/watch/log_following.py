"""Following what a run prints, to its end: each line once, in order, as soon as it is stored.

Hints say when to look; what is sent is always read from the stream behind the last line. So an outage, a
hint that was lost and a reader that is slow all come to the same: the next read goes on where the last ended.
"""

import logging
from collections.abc import AsyncGenerator, Iterator
from typing import Final

from pyoco_server.broker.stores.run_hints import RunWatch, RunWatches
from pyoco_server.broker.stores.run_log_store import RunLogs
from pyoco_server.broker.stores.run_store import RunStore
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.models import RunStatus
from pyoco_server.runs.watch.log_reading import START, LogFilter, LogReader, PlacedLine, Position

log = logging.getLogger(__name__)

_MOST_LINES_AT_ONCE: Final = 1000
# After so much silence it looks by itself: a hint may have been lost.
_LONG_SILENCE_SEC: Final = 15.0
_RETRY_SEC: Final = 0.5
# Subscribers hear of lines before these are stored, in a cluster long before: so after a hint it looks again.
_LOOK_AGAIN_SEC: Final = (0.05, 0.25, 1.0)


class LogFollower:
    """Follows one run. Once `lines` has ended, `status` is how the run did; None: it was removed."""

    def __init__(
        self,
        logs: RunLogs,
        runs: RunStore,
        watches: RunWatches,
        run_id: str,
        *,
        after: Position = START,
        wanted: LogFilter | None = None,
    ) -> None:
        self.status: RunStatus | None = None
        self._logs = logs
        self._reader = LogReader(logs, run_id, after=after, wanted=wanted)
        self._interruptions = logs.interruptions
        self._runs = runs
        self._watches = watches
        self._run_id = run_id

    async def lines(self) -> AsyncGenerator[list[PlacedLine], None]:
        """What was printed, some lines at a time; ends when the run has ended and all of it was given."""
        async with self._watches.watching(self._run_id) as watch:
            pauses: Iterator[float] = iter(())
            while True:
                if watch.settle():
                    pauses = iter(_LOOK_AGAIN_SEC)
                try:
                    await self._find_place()
                    ended = await self._has_ended(watch)
                    page = await self._reader.page(_MOST_LINES_AT_ONCE, ended=ended)
                except NatsUnavailable as error:
                    log.debug("cannot read on in the log of run %s: %s", self._run_id, error)
                    watch.status = None
                    await watch.stirs(_RETRY_SEC)
                    continue
                if page.lines:
                    yield page.lines
                if page.complete:
                    return
                if not page.moved:
                    # At the end of a run there may be no more hints, though a replica has yet to catch up.
                    await watch.stirs(next(pauses, _RETRY_SEC if ended else _LONG_SILENCE_SEC))

    async def _find_place(self) -> None:
        interruptions = self._logs.interruptions
        if interruptions != self._interruptions:
            await self._reader.find_place()
            self._interruptions = interruptions

    async def _has_ended(self, watch: RunWatch) -> bool:
        if watch.status is None:
            stored = await self._runs.get_from_leader(self._run_id)
            if stored is None:
                self.status = None
                return True
            watch.status = stored.snapshot.status
        self.status = watch.status
        return self.status.terminal
