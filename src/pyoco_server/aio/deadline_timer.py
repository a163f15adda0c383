"""One timer for many deadlines, added in the order in which they expire.

If it fires late because the process was paused (a suspended laptop, a paused virtual machine), expiry is
postponed once, so that replies that have arrived are read first.
"""

import asyncio
from collections.abc import Callable
from typing import Final

# A timer that fires this late shows that the process was paused.
_LATE_TIMER_SEC: Final = 1.0
# How long expiry is postponed then, once.
_POSTPONED_SEC: Final = 0.5


class DeadlineTimer:
    """Calls `expire(now)`, which ends what is due and returns the next deadline, or None."""

    def __init__(self, expire: Callable[[float], float | None]) -> None:
        self._expire = expire
        self._timer: asyncio.TimerHandle | None = None
        # Read once, since that takes a system call.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due = 0.0
        self._postponed = False

    def add(self, timeout_sec: float) -> float:
        """The deadline of something that begins now."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_sec
        if self._timer is None:
            self._set(deadline, loop)
        return deadline

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, due: float, loop: asyncio.AbstractEventLoop) -> None:
        self._due = due
        self._timer = loop.call_at(due, self._fire)

    def _fire(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        now = loop.time()
        self._postponed = now - self._due > _LATE_TIMER_SEC and not self._postponed
        if self._postponed:
            self._set(now + _POSTPONED_SEC, loop)
        elif (next_deadline := self._expire(now)) is not None:
            self._set(next_deadline, loop)
