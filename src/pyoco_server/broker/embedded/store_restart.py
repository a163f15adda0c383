"""Restarts the embedded server when its store has stopped.

A stream whose write has failed, since the disk was full, stores nothing until the server is restarted, also
when there is space again.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyoco_server.aio.background import Backoff, repeat
from pyoco_server.broker.embedded.data_folder import ENOUGH_BYTES, free_bytes
from pyoco_server.broker.embedded.embedded_server import EmbeddedNats
from pyoco_server.errors import EmbeddedServerError

_POLL_SEC: Final = 2.0
# Between two restarts: a store that stops again and again is not helped by restarts.
_FIRST_PAUSE_SEC: Final = 5.0
_LONGEST_PAUSE_SEC: Final = 600.0
# A store that has worked this long was helped by its restart.
_SETTLED_SEC: Final = 60.0


class StoreRestarter:
    """`on_event` gets a sentence whenever the store stops, and about each restart."""

    def __init__(
        self,
        nats: EmbeddedNats,
        on_event: Callable[[str], None],
        *,
        poll_sec: float = _POLL_SEC,
        free: Callable[[Path], int] = free_bytes,
    ) -> None:
        self._nats = nats
        self._on_event = on_event
        self._poll_sec = poll_sec
        self._free = free
        self._backoff = Backoff(_FIRST_PAUSE_SEC, _LONGEST_PAUSE_SEC)
        self._restarted_at = 0.0
        # Whether it was reported that the store has stopped.
        self._reported = False

    async def run(self) -> None:
        """Check the server again and again, until cancelled."""
        await repeat("store-restart", self._check)

    async def _check(self) -> None:
        await asyncio.sleep(self._poll_sec)
        try:
            stopped = await self._nats.write_errors()
        except EmbeddedServerError:
            # It is starting or has ended, which its supervisor handles.
            return
        if not stopped:
            self._reported = False
            if time.monotonic() - self._restarted_at > _SETTLED_SEC:
                self._backoff.reset()
            return
        self._report(stopped)
        if self._free(self._nats.data_dir) >= ENOUGH_BYTES:
            await self._restart()

    def _report(self, stopped: dict[str, str]) -> None:
        if self._reported:
            return
        self._reported = True
        stream, error = next(iter(stopped.items()))
        others = f" and {len(stopped) - 1} more" if len(stopped) > 1 else ""
        self._on_event(
            f"NATS cannot write to {stream}{others}: {error}. It is restarted as soon as there is space in "
            f"{self._nats.data_dir}."
        )

    async def _restart(self) -> None:
        self._on_event("There is space again: restarting NATS, whose store has stopped. Its data is kept.")
        try:
            await self._nats.restart()
        except EmbeddedServerError as error:
            self._on_event(str(error))
        else:
            self._on_event("NATS is running again.")
        self._restarted_at = time.monotonic()
        await asyncio.sleep(self._backoff.next_sec())
