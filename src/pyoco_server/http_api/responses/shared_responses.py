"""Answers that all who ask within a second share: however many ask, it is found once."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

_FRESH_SEC: Final = 1.0


@dataclass(slots=True)
class _Kept:
    body: bytes = b""
    until: float = 0.0
    # Whoever asks while it is being found waits for it.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class KeptAnswers:
    """One for each key, of which there must not be many: they are not forgotten."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}

    async def get(self, key: Hashable, find: Callable[[], Awaitable[bytes]]) -> bytes:
        kept = self._kept.setdefault(key, _Kept())
        async with kept.lock:
            if time.monotonic() >= kept.until:
                kept.body = await find()
                kept.until = time.monotonic() + _FRESH_SEC
            return kept.body
