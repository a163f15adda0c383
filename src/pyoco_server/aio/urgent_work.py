"""Work that others give way to: a run is submitted while ten thousand others wake.

Background work gives way before each item and each write of it: until nothing urgent is in progress, but only
for a moment, so that it continues where requests come without a break. Work that takes long, and that nobody
waits for, begins after a burst of urgent work.
"""

import asyncio
from types import TracebackType
from typing import Final

# Longer than most submits take. A wake gives way four times and eight are in progress: where submits never
# pause, four hundred a second are done in any case.
_LONGEST_SEC: Final = 0.005
# More urgent work than `_BURST` that begins in `_BURST_SEC` is a burst.
_BURST: Final = 25
_BURST_SEC: Final = 0.05
# What no caller waits for begins after a burst, but is never delayed longer than this.
LONGEST_BURST_SEC: Final = 2.0


class UrgentWork:
    """`with urgent: ...` in the event loop, around what is urgent."""

    def __init__(self) -> None:
        self._in_progress = 0
        self._begun = 0
        self._over: asyncio.Event | None = None

    def __enter__(self) -> None:
        self._in_progress += 1
        self._begun += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._in_progress -= 1
        if not self._in_progress and self._over is not None:
            self._over.set()
            self._over = None

    async def give_way(self, longest_sec: float = _LONGEST_SEC) -> None:
        """Wait until nothing urgent is in progress, but not longer than this."""
        if not self._in_progress:
            return
        if self._over is None:
            self._over = asyncio.Event()
        try:
            async with asyncio.timeout(longest_sec):
                await self._over.wait()
        except TimeoutError:
            return

    async def wait_for_burst_end(self, longest_sec: float = LONGEST_BURST_SEC) -> None:
        """Wait for the end of a burst, but not longer than this. Without one, it returns after a moment."""
        loop = asyncio.get_running_loop()
        latest, is_burst = loop.time() + longest_sec, True
        while is_burst and loop.time() < latest:
            begun = self._begun
            await asyncio.sleep(_BURST_SEC)
            is_burst = self._begun - begun > _BURST
