"""Work that others give way to: a run is submitted while ten thousand others wake.

Background work gives way before each item and each write of it: until nothing urgent is in progress, but only
for a moment, so that it continues where requests come without a break.
"""

import asyncio
from types import TracebackType
from typing import Final

# Longer than most submits take. A wake gives way four times and eight are in progress: where submits never
# pause, four hundred a second are done in any case.
_LONGEST_SEC: Final = 0.005


class UrgentWork:
    """`with urgent: ...` in the event loop, around what is urgent."""

    def __init__(self) -> None:
        self._in_progress = 0
        self._over: asyncio.Event | None = None

    def __enter__(self) -> None:
        self._in_progress += 1

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
