"""Calls sources when they are due. Each source returns the time of its next call.

There is no lease: with several gateways, each one calls its own sources, and what a source does is a
compare-and-set or may be repeated. The cost follows what is due, not what exists.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from pyoco_server.aio.background import BackgroundLoop, Backoff
from pyoco_server.errors import IndexNotReady, NatsUnavailable
from pyoco_server.errors.error_table import Err

log = logging.getLogger(__name__)

# The clock may be set, or the machine suspended: it is read again at least this often.
_LONGEST_PAUSE_SEC: Final = 30.0
# Between two calls of a source, so that a long list of due items leaves time for requests.
_BETWEEN_CALLS_SEC: Final = 0.01
_FIRST_RETRY_SEC: Final = 0.5
_LONGEST_RETRY_SEC: Final = 15.0


class TimekeeperSource(Protocol):
    """Something with work at known times: the timekeeper calls `run_due` when it is due."""

    @property
    def name(self) -> str: ...

    async def run_due(self, now: float) -> float | None:
        """Do a bounded part of what is due; return when to call again, or None: when it is woken."""
        ...


class Timekeeper:
    """Calls each source when it is due. A source that fails or takes long delays no other."""

    def __init__(self, ready: Callable[[], Awaitable[object]], now: Callable[[], float] = time.time) -> None:
        """`ready` waits for the connection; `now` is the time by which things are due."""
        self._ready = ready
        self.now = now
        self._loops: dict[str, _SourceLoop] = {}
        self._started = False

    def add(self, source: TimekeeperSource) -> None:
        assert source.name not in self._loops, f"there is a source {source.name}"
        loop = self._loops[source.name] = _SourceLoop(source, self._ready, self.now)
        if self._started:
            loop.start()

    def wake(self, name: str | None = None) -> None:
        """Call this source, or all of them, at once: something may be due earlier than it said."""
        for loop in self._loops.values() if name is None else (self._loops[name],):
            loop.wake()

    async def start(self) -> None:
        self._started = True
        for loop in self._loops.values():
            loop.start()

    async def close(self) -> None:
        self._started = False
        for loop in self._loops.values():
            await loop.close()


class _SourceLoop:
    def __init__(
        self, source: TimekeeperSource, ready: Callable[[], Awaitable[object]], now: Callable[[], float]
    ) -> None:
        self._source = source
        self._ready = ready
        self._now = now
        self._next_at = -math.inf
        self._backoff = Backoff(_FIRST_RETRY_SEC, _LONGEST_RETRY_SEC)
        self._outage_logged = False
        self._loop = BackgroundLoop(f"timekeeper {source.name}", self._step)
        self.start, self.close, self.wake = self._loop.start, self._loop.close, self._loop.wake

    async def _step(self) -> None:
        left_sec = self._next_at - self._now()
        if left_sec > 0 and not await self._loop.pause(min(left_sec, _LONGEST_PAUSE_SEC)):
            return
        await self._ready()
        if await self._call():
            await asyncio.sleep(_BETWEEN_CALLS_SEC)
        else:
            # A source that fails is not called earlier because it is woken.
            await asyncio.sleep(self._backoff.next_sec())

    async def _call(self) -> bool:
        """Whether it succeeded."""
        try:
            next_at = await self._source.run_due(self._now())
        except (NatsUnavailable, IndexNotReady) as error:
            if not self._outage_logged:
                extra = Err.NATS_UNAVAILABLE.log_fields()
                log.warning("%s: due work is postponed: %s", self._source.name, error, extra=extra)
            self._outage_logged = True
            self._next_at = -math.inf
            return False
        except Exception:
            log.exception("%s: unexpected error, retrying", self._source.name)
            self._next_at = -math.inf
            return False
        self._outage_logged = False
        self._backoff.reset()
        self._next_at = math.inf if next_at is None else next_at
        return True
