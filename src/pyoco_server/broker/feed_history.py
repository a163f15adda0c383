"""Whether a bucket still has the history that a reader has read, or lost its newest messages meanwhile.

A server that lost its power, and one that was restored from a backup, continue at an earlier sequence: the
stream is the same, but from some sequence D on its messages are others than those that were read. Once it has
passed the reader's revision R again, no number says so. The times do: what is stored after the loss is newer
than all that was stored before it, so newer than the message that was read at R.

R itself proves everything, as long as it is stored. A bucket keeps only the newest message of a key, so R may
have been replaced, rightly. Then this looks for the newest key that is still stored where it was read, the
anchor, and for anything between it and R:

- If the new history has a message between D and R, that is the anchor, or is found behind it: it is too new.
- If it has none, then every key that was read there is stored elsewhere: behind R, where the reader is about
  to read it; or in front of D or nowhere, and that is what the search for the anchor meets.
"""

import asyncio
from dataclasses import dataclass
from typing import Final, Protocol

from pyoco_server.broker.connection import Connection
from pyoco_server.broker.stream_reads import newest_place, next_place, place_at

# Of how many keys at a time the leader is asked.
_ASKED_AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True)
class Held:
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

    async def continues(self, held: Held, known: KnownKeys) -> bool:
        """Whether all that was read up to there was read from the history that the bucket has now."""
        if not held.revision:
            return True
        at_held = await place_at(self._connection, self._stream, held.revision)
        if at_held is not None:
            return at_held.stored_ns == held.stored_ns
        anchor = await self._anchor(held, known)
        return anchor is not None and await self._nothing_newer(anchor, held)

    async def _anchor(self, held: Held, known: KnownKeys) -> int | None:
        """The newest revision that is still stored; 0 when there is none, None on a contradiction."""
        below = held.revision + 1
        while some := await known.newest_below(below, limit=_ASKED_AT_ONCE):
            subjects = [self._prefix + each.key for each in some]
            places = await asyncio.gather(
                *(newest_place(self._connection, self._stream, subject) for subject in subjects)
            )
            for each, place in zip(some, places, strict=True):
                if place is None and each.deleted:
                    continue  # markers of deleted keys are removed in the end
                if place is None or place.sequence < each.revision:
                    return None
                if place.sequence == each.revision:
                    return each.revision if place.stored_ns <= held.stored_ns else None
                if place.sequence <= held.revision:
                    return None
            below = some[-1].revision
        return 0

    async def _nothing_newer(self, anchor: int, held: Held) -> bool:
        """Whether everything between the anchor and the revision is as old as it must be."""
        place = await next_place(self._connection, self._stream, after=anchor)
        while place is not None and place.sequence <= held.revision:
            if place.stored_ns > held.stored_ns:
                return False
            place = await next_place(self._connection, self._stream, after=place.sequence)
        return True
