"""Filling an index from the feed of its bucket, and waiting until it has caught up."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

from pyoco_server.broker.jetstream.bucket_feed import BucketFeed
from pyoco_server.broker.jetstream.feed_history import Checkpoint, KnownKey
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, StreamState
from pyoco_server.errors import IndexNotReady
from pyoco_server.runs.index.sqlite_index import SqliteIndex

log = logging.getLogger(__name__)

# Longer than a gateway needs that starts with an existing index.
_CATCH_UP_SEC: Final = 1.0

Index = TypeVar("Index", bound=SqliteIndex[Any])
Write = TypeVar("Write")


class IndexFeedReader(ABC, Generic[Index, Write]):
    """The `FeedReader` of an index: `Write` is a message of the bucket, decoded."""

    # For log lines: the entries, and the field with their key.
    name: str
    key_field: str

    def __init__(self, index: Index, bucket: str) -> None:
        self._index = index
        self._prefix = f"$KV.{bucket}."

    @property
    def checkpoint(self) -> Checkpoint:
        return self._index.checkpoint

    @property
    def ready(self) -> bool:
        return self._index.ready

    @property
    def entries(self) -> int:
        return self._index.entries

    @property
    def markers(self) -> int:
        return self._index.marker_count

    async def begin(self, created: str) -> None:
        await self._index.begin(created)

    async def others(
        self, after: int, upto: int, revisions: list[int], *, limit: int
    ) -> list[tuple[int, str]]:
        return await self._index.others(after, upto, revisions, limit=limit)

    async def newest_below(self, revision: int, *, limit: int) -> list[KnownKey]:
        return await self._index.newest_below(revision, limit=limit)

    async def first_markers(self, *, after: int, limit: int) -> list[tuple[int, str]]:
        return await self._index.first_markers(after=after, limit=limit)

    async def forget_markers(self, keys: list[str]) -> None:
        await self._index.forget_markers(keys)

    async def up_to_date(self, state: StreamState) -> None:
        if not self._index.ready:
            await self._index.complete()
            self._became_ready()
            log.info("the index of %s is ready: %d entries", self.name, self.entries)
        await self._index.check_file()

    @abstractmethod
    def _became_ready(self) -> None:
        """Called when the index has caught up for the first time."""

    @abstractmethod
    def _decode(self, key: str, message: StreamMessage) -> Write | None:
        """None for a key that cannot be one of this bucket."""

    async def _decode_batch(self, batch: list[StreamMessage]) -> list[Write]:
        """In a thread: records can be long."""
        return await asyncio.to_thread(lambda: list(self._decoded(batch)))

    def _decoded(self, batch: list[StreamMessage]) -> Iterator[Write]:
        for message in batch:
            key = message.subject.removeprefix(self._prefix)
            write = self._decode(key, message)
            if write is None:
                log.warning(
                    "ignoring an invalid key in the bucket of %s", self.name, extra={self.key_field: key}
                )
            else:
                yield write


class CatchUp:
    """Waits until an index has everything that was stored before the call."""

    def __init__(self, index: SqliteIndex[Any], feed: BucketFeed, progress: Callable[[], str]) -> None:
        self._index = index
        self._feed = feed
        self._progress = progress

    async def wait(self) -> None:
        """IndexNotReady while the index is being filled, which takes longer than a client should wait.

        An index that was filled and lags behind is used as it is.
        """
        try:
            async with asyncio.timeout(_CATCH_UP_SEC):
                await self._feed.caught_up()
        except TimeoutError:
            self._feed.require_nats()
            if not self._index.ready:
                raise IndexNotReady(self._progress()) from None
        except IndexNotReady:
            if not self._index.ready:
                raise

    async def wait_if_ready(self) -> None:
        """The same, but IndexNotReady at once while the index is being filled."""
        if not self._index.ready:
            raise IndexNotReady(self._progress())
        await self.wait()
