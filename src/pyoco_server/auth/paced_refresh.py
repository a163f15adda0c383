"""Refreshes of a copy for requests that find nothing in it: shared, paced and bounded.

What is asked for is chosen by the caller, who may be an attacker. So a refresh is not for one key: all who
wait share the next one, and a flood of unknown keys costs NATS a fixed number of requests per second. Nothing
is kept per key.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from pyoco_server.errors import NatsUnavailable

# From the begin of one refresh to that of the next: at most 40 per second.
PACE_SEC: Final = 0.025
# One that waits costs a future beside its open connection.
MAX_WAITING: Final = 10_000
# A replica that has not received the newest write yet fails the first one.
_ATTEMPTS: Final = 2


class PacedRefresh:
    def __init__(self, refresh: Callable[[], Awaitable[None]], *, timeout_sec: float) -> None:
        """`refresh` raises NatsUnavailable when it fails."""
        self._refresh = refresh
        self._timeout_sec = timeout_sec
        # It has not begun, and is the one to share.
        self._next: asyncio.Task[bool] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._not_before = 0.0
        self._waiting = 0
        # At most two: the one that runs, and the next.
        self._tasks: set[asyncio.Task[bool]] = set()
        self._closed = False

    async def wait_for_refresh(self) -> bool:
        """Wait for one that begins after this call; False: none succeeded in time, or too many wait."""
        if self._waiting >= MAX_WAITING:
            return False
        self._waiting += 1
        try:
            async with asyncio.timeout(self._timeout_sec):
                for _ in range(_ATTEMPTS):
                    if await self._shared():
                        return True
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1
        return False

    async def close(self) -> None:
        """Those who wait get False."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _shared(self) -> bool:
        if self._closed:
            return False
        if self._next is None:
            self._next = asyncio.create_task(self._run(), name="paced-refresh")
            self._tasks.add(self._next)
            self._next.add_done_callback(self._tasks.discard)
        refresh = self._next
        # Not awaited itself: a request that is cancelled must not cancel it for the others.
        await asyncio.wait([refresh])
        return not refresh.cancelled() and refresh.result()

    async def _run(self) -> bool:
        async with self._one_at_a_time:
            await asyncio.sleep(self._not_before - time.monotonic())
            # Who comes from here on needs a later one.
            self._next = None
            self._not_before = time.monotonic() + PACE_SEC
            try:
                await self._refresh()
            except NatsUnavailable:
                return False
            return True
