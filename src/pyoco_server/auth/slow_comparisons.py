"""Comparisons of keys of the public package, which take a tenth of a second or more: shared and bounded.

What is compared is chosen by the caller, who may be an attacker. So there is one comparison at a time,
requests with the same key share it, and of each key id only a few different secrets wait: guesses of one key
occupy one processor at most, and do not keep the owners of other keys waiting.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from pyoco_server.errors import ApiKeysBusy

# A key has one secret, and two while it is being rotated.
MAX_SECRETS: Final = 4


class SlowComparisons:
    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Lock()
        # By the fingerprint of the key.
        self._tasks: dict[bytes, asyncio.Task[None]] = {}
        # How many of them, by key id.
        self._waiting: Counter[str] = Counter()

    async def run(self, compare: Callable[[], Awaitable[None]], *, key_id: str, fingerprint: bytes) -> None:
        """Wait for the comparison of this key; ApiKeysBusy if too many other secrets of its id wait."""
        comparison = self._tasks.get(fingerprint)
        if comparison is None:
            if self._waiting[key_id] >= MAX_SECRETS:
                raise ApiKeysBusy(f"{MAX_SECRETS} secrets for the key {key_id} are being compared")
            comparison = asyncio.create_task(self._run(compare), name="compare-key")
            comparison.add_done_callback(lambda _: self._remove(key_id, fingerprint))
            self._tasks[fingerprint] = comparison
            self._waiting[key_id] += 1
        # Not awaited itself: a request that is cancelled must not cancel it for the others.
        await asyncio.wait([comparison])
        if not comparison.cancelled():
            comparison.result()

    async def close(self) -> None:
        """Those who wait find their key not compared."""
        if tasks := list(self._tasks.values()):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _run(self, compare: Callable[[], Awaitable[None]]) -> None:
        async with self._one_at_a_time:
            await compare()

    def _remove(self, key_id: str, fingerprint: bytes) -> None:
        del self._tasks[fingerprint]
        self._waiting[key_id] -= 1
        if not self._waiting[key_id]:
            del self._waiting[key_id]
