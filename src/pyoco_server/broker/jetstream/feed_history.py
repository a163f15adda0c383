"""Detects a truncated bucket: one that has lost its newest messages since a reader has read it.

A server that lost its power, and one that was restored from a backup, continue at an earlier sequence: the
stream is the same, but from some sequence D on its messages differ from those that were read. Once it has
passed the reader's revision R again, no sequence shows that. The times do: what is stored after the loss is
newer than everything stored before it, so newer than the message that was read at R.

R itself proves everything, as long as it is stored. A bucket keeps only the newest message of a key, so R may
have been replaced or removed legitimately. Then the known keys are compared, the newest first, up to the
first one that is still stored where it was read, the anchor. If the anchor is as old as it must be, it is
before D, and every key after it was compared. After a truncation, one of these holds:

- The new history has a message between D and R. It is the anchor, or is found after it: it is too new.
- A key that was read between D and R, be it as deleted, is stored before D, or elsewhere before R.
- Every key that was read between D and R is stored after R, where it is about to be read, or nowhere.

The first two prove a truncation. A key that is stored nowhere may also have been removed legitimately,
together with its marker, while the reader was away. Both look the same and need the same: the reader forgets
the key. So that is no truncation; the caller compares the reader's keys with the bucket (removed_keys.py).
What the reader does not know of the bucket is after R in any case.

Deleted keys must be among the known ones while the bucket has their markers. Otherwise everything between
the anchor and R is markers, and a lost deletion is not noticed.
"""

import asyncio
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import (
    MessageInfo,
    StreamMessage,
    StreamState,
    info_at,
    newest_info,
    next_info,
)

# How many keys are requested from the leader at a time.
_CONCURRENT_REQUESTS: Final = 32
# So many keys are compared in any case; and more, until it takes as long as reading the bucket again, which
# reads about so many messages in the time of one request.
_MIN_COMPARED: Final = 2048
_READ_PER_REQUEST: Final = 16


class HistoryComparison(Enum):
    CONTINUES = auto()
    # It continues as well, but some of the keys are not stored any more.
    KEYS_MISSING = auto()
    TRUNCATED = auto()
    # To find out would take longer than to read the bucket again.
    TOO_MUCH_CHANGED = auto()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything up to the revision is read, of the bucket that was created at that time."""

    created: str
    revision: int
    # When the message of that revision was stored, in nanoseconds by the server's clock.
    stored_ns: int = 0


@dataclass(frozen=True, slots=True)
class KnownKey:
    revision: int
    key: str
    # Whether what was read is a marker.
    deleted: bool = False


class FeedReader(Protocol):
    """Called by one task, so that each call ends before the next."""

    @property
    def checkpoint(self) -> Checkpoint: ...

    @property
    def entries(self) -> int:
        """How many keys it knows."""
        ...

    @property
    def markers(self) -> int:
        """How many deleted keys it remembers, because the bucket still has a marker of each."""
        ...

    @property
    def ready(self) -> bool:
        """Whether it has been up to date, so that it can be queried."""
        ...

    async def begin(self, created: str) -> None:
        """Forget everything: this is another bucket, or the same one with another history."""

    async def take(self, batch: list[StreamMessage]) -> None:
        """Apply these writes."""

    async def up_to_date(self, state: StreamState) -> None:
        """Called when there is nothing more to read."""

    async def first_markers(self, *, after: int, limit: int) -> list[tuple[int, str]]:
        """The oldest deleted keys that it remembers after this revision: revision and key."""
        ...

    async def forget_markers(self, keys: list[str]) -> None:
        """The bucket has no marker of these any more."""

    async def others(
        self, after: int, upto: int, revisions: list[int], *, limit: int
    ) -> list[tuple[int, str]]:
        """The first known keys with a revision in (after, upto] that is not one of these: revision, key."""
        ...

    async def newest_below(self, revision: int, *, limit: int) -> list[KnownKey]:
        """The keys it knows with the highest revisions below this one, the highest first."""
        ...

    async def drop(self, revisions: list[int]) -> None:
        """Forget the keys with these revisions: they were removed."""


class FeedHistory:
    """Compares a bucket, as its leader knows it, with what was read from it."""

    def __init__(self, connection: Connection, stream: str, prefix: str) -> None:
        self._connection = connection
        self._stream = stream
        self._prefix = prefix

    async def compare(
        self, checkpoint: Checkpoint, reader: FeedReader, state: StreamState
    ) -> HistoryComparison:
        """Whether everything up to the checkpoint was read from the history that the bucket has now."""
        if checkpoint.revision > state.last_sequence:
            return HistoryComparison.TRUNCATED
        if not checkpoint.revision:
            return HistoryComparison.CONTINUES
        stored = await info_at(self._connection, self._stream, checkpoint.revision)
        if stored is not None:
            same = stored.stored_ns == checkpoint.stored_ns
            return HistoryComparison.CONTINUES if same else HistoryComparison.TRUNCATED
        limit = max(_MIN_COMPARED, state.messages // _READ_PER_REQUEST)
        return await self._compare_keys(checkpoint, reader, limit)

    async def _compare_keys(
        self, checkpoint: Checkpoint, reader: FeedReader, limit: int
    ) -> HistoryComparison:
        compared = 0
        result = HistoryComparison.CONTINUES
        below = checkpoint.revision + 1
        while keys := await reader.newest_below(below, limit=_CONCURRENT_REQUESTS):
            for key, info in zip(keys, await self._newest(keys), strict=True):
                if info is None:
                    if not key.deleted:
                        result = HistoryComparison.KEYS_MISSING
                elif info.sequence == key.revision:
                    return await self._compare_times(info, checkpoint, result)
                elif info.sequence <= checkpoint.revision:
                    return HistoryComparison.TRUNCATED
            compared += len(keys)
            if compared >= limit:
                return HistoryComparison.TOO_MUCH_CHANGED
            below = keys[-1].revision
        return await self._compare_times(None, checkpoint, result)

    async def _newest(self, keys: list[KnownKey]) -> list[MessageInfo | None]:
        subjects = [self._prefix + key.key for key in keys]
        return await asyncio.gather(
            *(newest_info(self._connection, self._stream, subject) for subject in subjects)
        )

    async def _compare_times(
        self, anchor: MessageInfo | None, checkpoint: Checkpoint, result: HistoryComparison
    ) -> HistoryComparison:
        """The result, if the anchor and everything between it and the checkpoint is old enough."""
        info = anchor or await next_info(self._connection, self._stream, after=0)
        while info is not None and info.sequence <= checkpoint.revision:
            if info.stored_ns > checkpoint.stored_ns:
                return HistoryComparison.TRUNCATED
            info = await next_info(self._connection, self._stream, after=info.sequence)
        return result
