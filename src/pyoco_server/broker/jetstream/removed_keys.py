"""Finds keys that a reader of a bucket knows and the bucket does not have, not even as a marker.

Each key has one message in the bucket, so counting shows that messages are missing. Usually sweeps have
removed markers: the remembered ones are looked up at the leader, the oldest first, until the count matches.
If markers do not explain it, the bucket is compared with everything that the reader knows. Both are done in
small steps, while no caller waits for the feed.
"""

import asyncio
import time
from typing import Final

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.feed_history import FeedReader
from pyoco_server.broker.jetstream.stream_cursor import StreamCursor
from pyoco_server.broker.jetstream.stream_reads import last_sequence

# How often there is a round, of how many steps, and how much each step reads.
_ROUND_SEC: Final = 1.0
_STEPS: Final = 2
_MARKERS: Final = 256
_BATCH: Final = 512
_BATCH_BYTES: Final = 4 * 1024 * 1024
_CONCURRENT_REQUESTS: Final = 32


class RemovedKeys:
    """Finds the removed keys, and makes the reader forget them."""

    def __init__(self, connection: Connection, stream: str, prefix: str, reader: FeedReader) -> None:
        self._connection = connection
        self._stream = stream
        self._prefix = prefix
        self._reader = reader
        self._cursor = StreamCursor(connection, stream)
        # Up to this revision markers were looked up; None: they need not be.
        self._looked_up: int | None = None
        # How many messages are still to be explained by markers.
        self._missing = 0
        # Up to this revision keys were compared; None: they need not be.
        self._compared: int | None = None
        self._upto = 0
        self._next_at = 0.0

    async def close(self) -> None:
        await self._cursor.close()

    def stop(self) -> None:
        self._looked_up = self._compared = None

    def compare_all(self, *, upto: int) -> None:
        """Compare all keys up to this revision, also those that were compared before."""
        self._compared, self._upto = 0, upto

    def explain(self, missing: int, *, upto: int) -> None:
        """So many messages are missing in the bucket: find out which, unless that is under way."""
        if self._looked_up is None and self._compared is None:
            self._looked_up, self._missing, self._upto = 0, missing, upto

    async def run_due_steps(self) -> None:
        """Run the next steps, if they are due."""
        if time.monotonic() < self._next_at:
            return
        for _ in range(_STEPS):
            if self._looked_up is not None:
                self._looked_up = await self._look_up_markers(self._looked_up)
            elif self._compared is not None:
                self._compared = await self._compare(self._compared)
            else:
                return
            self._next_at = time.monotonic() + _ROUND_SEC

    async def _look_up_markers(self, after: int) -> int | None:
        """Return up to where that was done; None when it is finished."""
        some = await self._reader.first_markers(after=after, limit=_MARKERS)
        removed = set(await self._not_stored(some))
        if removed:
            await self._reader.forget_markers([key for revision, key in some if revision in removed])
            self._missing -= len(removed)
        if self._missing <= 0:
            return None
        if len(some) == _MARKERS:
            return some[-1][0]
        self.compare_all(upto=self._upto)
        return None

    async def _compare(self, after: int) -> int | None:
        """Return up to where that was done; None when it is finished."""
        batch = await self._cursor.read(after=after, limit=_BATCH, max_bytes=_BATCH_BYTES)
        upto = min(batch[-1].sequence, self._upto) if batch else self._upto
        there = [message.sequence for message in batch]
        others = await self._reader.others(after, upto, there, limit=_BATCH)
        if len(others) == _BATCH:
            upto = others[-1][0]
        if removed := await self._not_stored(others):
            await self._reader.drop(removed)
        return None if upto >= self._upto else upto

    async def _not_stored(self, keys: list[tuple[int, str]]) -> list[int]:
        """The revisions of the keys of which the bucket has no message, not even a newer one."""
        removed = []
        for start in range(0, len(keys), _CONCURRENT_REQUESTS):
            some = keys[start : start + _CONCURRENT_REQUESTS]
            # From the leader: a replica may lag.
            newest = await asyncio.gather(
                *(last_sequence(self._connection, self._stream, self._prefix + key) for _, key in some)
            )
            removed += [revision for (revision, _), last in zip(some, newest, strict=True) if last == 0]
        return removed
