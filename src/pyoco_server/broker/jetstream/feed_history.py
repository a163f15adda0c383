"""Whether a bucket still has the history that a reader has read, or lost its newest messages meanwhile.

A server that lost its power, and one that was restored from a backup, continue at an earlier sequence: the
stream is the same, but from some sequence D on its messages are others than those that were read. Once it has
passed the reader's revision R again, no number says so. The times do: what is stored after the loss is newer
than all that was stored before it, so newer than the message that was read at R.

R itself proves everything, as long as it is stored. A bucket keeps only the newest message of a key, so R may
have been replaced or removed, rightly. Then this goes through the known keys, the newest first, to the first
one that is still stored where it was read, the anchor. If the anchor is as old as it must be, it is in front
of D, and every key behind it was asked for. If there was a loss, one of these holds:

- The new history has a message between D and R. It is the anchor, or is found behind it: it is too new.
- A key that was read between D and R, be it as deleted, is stored in front of D, or elsewhere in front of R.
- Every key that was read between D and R is stored behind R, where it is about to be read, or nowhere.

The first two are certain. A key that is stored nowhere may as well have been removed rightly, together with
its marker, while the reader was away. Both look the same, and the same is to be done: the reader forgets it.
So that is no loss; the caller compares the reader's keys with the bucket (removed_keys.py). What the reader
does not know of the bucket is behind R in any case.

Deleted keys have to be among the known ones while the bucket has their markers. Else what lies between the
anchor and R is all markers, and a deletion that was lost is not noticed.
"""

import asyncio
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import (
    StoredPlace,
    StreamState,
    newest_place,
    next_place,
    place_at,
)

# Of how many keys at a time the leader is asked.
_ASKED_AT_ONCE: Final = 32
# For so many keys it is asked in any case; and for more, until it takes as long as reading the bucket anew,
# which reads about so many messages in the time of one question.
_LEAST_ASKED: Final = 2048
_READ_PER_QUESTION: Final = 16


class Comparison(Enum):
    """What is known of the bucket's history."""

    CONTINUES = auto()
    # It continues as well, but some of the keys are not stored any more.
    KEYS_MISSING = auto()
    # The newest messages were lost.
    TRUNCATED = auto()
    # To find out would take longer than to read the bucket again.
    TOO_MUCH_CHANGED = auto()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the reader knows: all writes up to the revision, of the bucket that was made at that time."""

    created: str
    revision: int
    # When the message of that revision was stored, in nanoseconds by the server's clock.
    stored_ns: int = 0


@dataclass(frozen=True, slots=True)
class KnownKey:
    revision: int
    key: str
    # It was read that the key was deleted.
    deleted: bool = False


class KnownKeys(Protocol):
    """The keys that a reader has read."""

    async def newest_below(self, revision: int, *, limit: int) -> list[KnownKey]:
        """Those with the highest revisions below this one, the highest first."""
        ...


class FeedHistory:
    """Compares a bucket, as its leader knows it, with what was read from it."""

    def __init__(self, connection: Connection, stream: str, prefix: str) -> None:
        self._connection = connection
        self._stream = stream
        self._prefix = prefix

    async def compare(self, checkpoint: Checkpoint, known: KnownKeys, state: StreamState) -> Comparison:
        """Whether all that was read up to there was read from the history that the bucket has now."""
        if checkpoint.revision > state.last_sequence:
            return Comparison.TRUNCATED
        if not checkpoint.revision:
            return Comparison.CONTINUES
        at_held = await place_at(self._connection, self._stream, checkpoint.revision)
        if at_held is not None:
            return Comparison.CONTINUES if at_held.stored_ns == checkpoint.stored_ns else Comparison.TRUNCATED
        most = max(_LEAST_ASKED, state.messages // _READ_PER_QUESTION)
        return await self._compare_keys(checkpoint, known, most=most)

    async def _compare_keys(self, checkpoint: Checkpoint, known: KnownKeys, *, most: int) -> Comparison:
        asked = 0
        result = Comparison.CONTINUES
        below = checkpoint.revision + 1
        while some := await known.newest_below(below, limit=_ASKED_AT_ONCE):
            for each, place in zip(some, await self._places(some), strict=True):
                if place is None:
                    if not each.deleted:
                        result = Comparison.KEYS_MISSING
                elif place.sequence == each.revision:
                    return await self._behind(place, checkpoint, result)
                elif place.sequence <= checkpoint.revision:
                    return Comparison.TRUNCATED
            asked += len(some)
            if asked >= most:
                return Comparison.TOO_MUCH_CHANGED
            below = some[-1].revision
        return await self._behind(None, checkpoint, result)

    async def _places(self, keys: list[KnownKey]) -> list[StoredPlace | None]:
        subjects = [self._prefix + each.key for each in keys]
        return await asyncio.gather(
            *(newest_place(self._connection, self._stream, subject) for subject in subjects)
        )

    async def _behind(
        self, anchor: StoredPlace | None, checkpoint: Checkpoint, result: Comparison
    ) -> Comparison:
        """The result, if the anchor and everything between it and the revision is as old as it must be."""
        place = anchor or await next_place(self._connection, self._stream, after=0)
        while place is not None and place.sequence <= checkpoint.revision:
            if place.stored_ns > checkpoint.stored_ns:
                return Comparison.TRUNCATED
            place = await next_place(self._connection, self._stream, after=place.sequence)
        return result
