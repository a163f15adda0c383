"""Filling an index from the feed of its bucket, and waiting until it has caught up."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from pyoco_server.broker.jetstream.bucket_feed import BucketFeed
from pyoco_server.broker.jetstream.feed_history import Checkpoint, KnownKey
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, StreamState
from pyoco_server.errors import IndexNotReady, PyocoError
from pyoco_server.records.decoding import unreadable
from pyoco_server.records.unreadable_records import RecordKind, UnreadableRecords
from pyoco_server.runs.index.sqlite.sqlite_index import FeedWrite, SqliteIndex

log = logging.getLogger(__name__)

T = TypeVar("T")
Index = TypeVar("Index", bound=SqliteIndex[Any])
Write = TypeVar("Write", bound=FeedWrite)


class IndexFeedReader(ABC, Generic[Index, Write]):
    """The `FeedReader` of an index."""

    # For log lines: the entries, and the field with their key.
    name: str
    key_field: str
    kind: RecordKind

    def __init__(self, index: Index, bucket: str, unreadable: UnreadableRecords, *, prefix: str = "") -> None:
        """`prefix`: of the subjects, where `bucket` is another stream."""
        self._index = index
        self._prefix = prefix or f"$KV.{bucket}."
        self._unreadable = unreadable

    @property
    def checkpoint(self) -> Checkpoint:
        return self._index.checkpoint

    @property
    def ready(self) -> bool:
        return self._index.ready

    @property
    def entries(self) -> int:
        return self._index.entries + self._index.unreadable_count

    @property
    def markers(self) -> int:
        return self._index.marker_count

    async def begin(self, created: str) -> None:
        self._unreadable.clear(self.kind)
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
            # Those of an index that existed at the start.
            for revision, key, problem in await self._index.unreadable():
                self._unreadable.add(self.kind, key, revision, problem, logged=True)
            await self._index.complete()
            self._became_ready()
            log.info("the index of %s is ready: %d entries", self.name, self._index.entries)
        await self._index.check_file()

    @abstractmethod
    def _became_ready(self) -> None:
        """Called when the index has caught up for the first time."""

    @abstractmethod
    def _decode(self, key: str, message: StreamMessage) -> Write | None:
        """None for a key that cannot be one of this bucket; any exception for an unreadable record."""

    @abstractmethod
    def _without_record(self, key: str, message: StreamMessage, problem: str) -> Write:
        """The write of a record that cannot be read: it is not listed, whatever was indexed of it before."""

    async def _apply_batch(
        self, batch: list[StreamMessage], apply: Callable[[list[Write], StreamMessage], Awaitable[list[T]]]
    ) -> list[tuple[Write, T]]:
        """Decode the batch and apply it: each write with the result.

        Whatever happens, no record stops the others: if the batch fails, its messages are applied one by
        one, and the record of a message that fails alone counts as unreadable.
        """
        writes = await asyncio.to_thread(lambda: [self._decoded(message) for message in batch])
        known = [write for write in writes if write is not None]
        try:
            found = list(zip(known, await apply(known, batch[-1]), strict=True))
        except (PyocoError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever one of them causes, the others are applied
            log.warning("applying %d %s one by one: %s", len(batch), self.name, error)
            found = []
            for message, write in zip(batch, writes, strict=True):
                found += await self._apply_one(message, write, apply)
        for write, _ in found:
            self._report(write)
        return found

    async def _apply_one(
        self,
        message: StreamMessage,
        write: Write | None,
        apply: Callable[[list[Write], StreamMessage], Awaitable[list[T]]],
    ) -> list[tuple[Write, T]]:
        writes = [] if write is None else [write]
        try:
            return list(zip(writes, await apply(writes, message), strict=True))
        except (PyocoError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - see above
            key = message.subject.removeprefix(self._prefix)
            writes = [self._without_record(key, message, unreadable(error).detail)]
            return list(zip(writes, await apply(writes, message), strict=True))

    def _decoded(self, message: StreamMessage) -> Write | None:
        key = message.subject.removeprefix(self._prefix)
        try:
            write = self._decode(key, message)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the feed goes on
            return self._without_record(key, message, unreadable(error).detail)
        if write is None:
            log.warning("ignoring an invalid key in the bucket of %s", self.name, extra={self.key_field: key})
        return write

    def _report(self, write: Write) -> None:
        if write.problem is None:
            # A feed reads some fields only: at this revision another one may be unreadable.
            self._unreadable.remove(self.kind, write.key, older_than=write.revision)
        else:
            self._unreadable.add(self.kind, write.key, write.revision, write.problem)


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
            is_complete = await self._feed.caught_up_in_time()
        except IndexNotReady:
            if not self._index.ready:
                raise
        else:
            if not is_complete and not self._index.ready:
                raise IndexNotReady(self._progress())

    async def wait_if_ready(self) -> None:
        """The same, but IndexNotReady at once while the index is being filled."""
        if not self._index.ready:
            raise IndexNotReady(self._progress())
        await self.wait()
