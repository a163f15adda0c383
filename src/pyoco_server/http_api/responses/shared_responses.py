"""Responses that all requests within one second share."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

_MAX_AGE_SEC: Final = 1.0


@dataclass(slots=True)
class _Entry:
    body: bytes = b""
    expires_at: float = 0.0
    # Held while the response is computed.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class SharedResponses:
    """One per key; entries are never removed, so there must be few keys."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, _Entry] = {}

    async def get(self, key: Hashable, compute: Callable[[], Awaitable[bytes]]) -> bytes:
        entry = self._entries.setdefault(key, _Entry())
        async with entry.lock:
            if time.monotonic() >= entry.expires_at:
                entry.body = await compute()
                entry.expires_at = time.monotonic() + _MAX_AGE_SEC
            return entry.body
