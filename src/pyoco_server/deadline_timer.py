"""One timer for many deadlines that are made in the order in which they come due.

It forgives a process that stood still, such as on a suspended laptop or a paused virtual machine: answers may
be waiting unread then, so that nothing expires before there was time to read them.
"""

import asyncio
from collections.abc import Callable
from typing import Final

# A timer that fires this late shows that the process stood still.
_STALL_SEC: Final = 1.0
# How long deadlines are put off after that, once.
_AFTER_STALL_SEC: Final = 0.5


class DeadlineTimer:
    """Calls `expire(now)`, which ends what is due and returns the next deadline, or None."""

    def __init__(self, expire: Callable[[float], float | None]) -> None:
        self._expire = expire
        self._timer: asyncio.TimerHandle | None = None
        # Read once, since that takes a system call.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due = 0.0
        self._is_put_off = False

    def begin(self, timeout_sec: float) -> float:
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
        self._is_put_off = now - self._due > _STALL_SEC and not self._is_put_off
        if self._is_put_off:
            self._set(now + _AFTER_STALL_SEC, loop)
        elif (next_deadline := self._expire(now)) is not None:
            self._set(next_deadline, loop)
