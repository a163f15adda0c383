"""Returns the freed memory of a gateway to the system."""

import asyncio
import ctypes
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final


class FreedMemory:
    """A source of the timekeeper, for what is free after a bucket was read, or many runs woke at once.

    glibc keeps such memory: a gateway with 100,000 parked runs would hold two to three times what it needs.
    """

    name = "freed memory"
    _EVERY_SEC: Final = 30.0

    def __init__(self, free_caches: Sequence[Callable[[], Awaitable[None]]] = ()) -> None:
        """`free_caches` give back what is only kept to be quicker."""
        self._free_caches = free_caches

    async def run_due(self, now: float) -> float:
        for free in self._free_caches:
            await free()
        await asyncio.to_thread(return_freed_memory)
        return now + self._EVERY_SEC


def return_freed_memory() -> None:
    # Other C libraries do not have it, or do so by themselves.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
