"""What all watches have in common: how long they last, and how long they may be silent."""

import asyncio

from pyoco_server.http_api import sse


class WatchTime:
    """The time that one watch has."""

    def __init__(self, timeout_sec: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._ends_at = None if timeout_sec is None else self._loop.time() + timeout_sec

    @property
    def over(self) -> bool:
        return self._ends_at is not None and self._loop.time() >= self._ends_at

    @property
    def silence(self) -> float:
        """For how long it may say nothing."""
        if self._ends_at is None:
            return sse.KEEPALIVE_SEC
        return min(sse.KEEPALIVE_SEC, max(0.0, self._ends_at - self._loop.time()))
