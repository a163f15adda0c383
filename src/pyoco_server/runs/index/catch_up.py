"""Questions wait until all is known that was stored before they were asked; but not for long."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from pyoco_server.broker.jetstream.bucket_feed import BucketFeed
from pyoco_server.errors import IndexNotReady

# Longer than a gateway needs that has kept its index.
_PATIENCE_SEC: Final = 1.0


class Filled(Protocol):
    """An index, as far as it matters here."""

    ready: bool


class Freshness:
    """Of an index and the feed that fills it."""

    def __init__(self, index: Filled, feed: BucketFeed, progress: Callable[[], str]) -> None:
        self._index = index
        self._feed = feed
        self._progress = progress

    async def caught_up(self) -> None:
        """IndexNotReady while the index is being filled, which takes longer than a client should wait.

        One that is filled and cannot keep up answers as of the revision that it has.
        """
        try:
            async with asyncio.timeout(_PATIENCE_SEC):
                await self._feed.caught_up()
        except TimeoutError:
            self._feed.require_nats()
            if not self._index.ready:
                raise IndexNotReady(self._progress()) from None
        except IndexNotReady:
            if not self._index.ready:
                raise

    async def caught_up_if_made(self) -> None:
        """The same without waiting for an index that is being made."""
        if not self._index.ready:
            raise IndexNotReady(self._progress())
        await self.caught_up()
