"""How many bytes of unproven senders a gateway holds in memory: anybody may open connections and stall."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pyoco_server.errors import UploadsBusy

_MIN_BYTES: Final = 64 * 1024 * 1024
_LARGEST_BODIES: Final = 4
_RETRY_AFTER_SEC: Final = 2


class BodyBudget:
    def __init__(self, body_max_bytes: int) -> None:
        self.max_bytes = max(_MIN_BYTES, _LARGEST_BODIES * body_max_bytes)
        self._held = 0

    @contextmanager
    def reserving(self) -> Iterator[Callable[[int], None]]:
        """A function that reserves the bytes of a part of a body: UploadsBusy if there is no room.

        All of them are free again at the end of the block.
        """
        own = 0

        def reserve(count: int) -> None:
            nonlocal own
            if self._held + count > self.max_bytes:
                busy = UploadsBusy(f"deliveries of {self._held} bytes are being received")
                busy.retry_after_sec = _RETRY_AFTER_SEC
                # The rest of the body is not read.
                busy.headers["Connection"] = "close"
                raise busy
            self._held += count
            own += count

        try:
            yield reserve
        finally:
            self._held -= own
