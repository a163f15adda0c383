"""Follows a stream: reads what is added to it, in order, from the time of the first read on."""

from collections.abc import AsyncIterator, Callable
from typing import Final

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.client.subscriptions import RenewableSubscription
from pyoco_server.broker.jetstream.stream_cursor import StreamCursor
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, info_at, stream_state

_BATCH: Final = 256
_BATCH_BYTES: Final = 4 * 1024 * 1024


class StreamFollower:
    """For one caller at a time, which calls `begin` before it reads, and again after each failure."""

    def __init__(
        self, connection: Connection, stream: str, subject: str, on_write: Callable[[], None]
    ) -> None:
        """`on_write` is called when something was published, perhaps a moment before it can be read."""
        self._connection = connection
        self._stream = stream
        self._cursor = StreamCursor(connection, stream)
        self._writes = RenewableSubscription(connection, self._announce, subject)
        self._on_write = on_write
        # Everything up to this message has been read, or was there before; None: not begun.
        self._after: int | None = None
        self._stored_ns = 0
        self._created = ""
        # The connection's count of interruptions when the position was last compared with the stream.
        self._interruptions: int | None = None

    async def begin(self) -> bool:
        """Note the position, unless it is known; return whether it is a new one.

        Then the caller has to look itself at what was in the stream before.
        """
        # Before the position is noted: what comes after it is announced.
        await self._writes.renew()
        interruptions = self._connection.interruptions
        if self._interruptions == interruptions:
            return False
        if await self._is_same_history():
            self._interruptions = interruptions
            return False
        state = await stream_state(self._connection, self._stream)
        self._after, self._created = state.last_sequence, state.created
        # An empty stream has no message 0.
        newest = await info_at(self._connection, self._stream, self._after) if self._after else None
        self._stored_ns = 0 if newest is None else newest.stored_ns
        self._interruptions = interruptions
        return True

    async def batches(self) -> AsyncIterator[list[StreamMessage]]:
        """The next messages, up to the end. A batch counts as read when the next one is asked for."""
        assert self._after is not None, "begin has been called"
        while batch := await self._cursor.read(after=self._after, limit=_BATCH, max_bytes=_BATCH_BYTES):
            yield batch
            self._after, self._stored_ns = batch[-1].sequence, batch[-1].stored_ns

    async def close(self) -> None:
        await self._writes.end()
        await self._cursor.close()

    async def _is_same_history(self) -> bool:
        """Whether the stream still has what was read last: a server may have lost its newest messages.

        A message that was removed proves nothing.
        """
        if self._after is None:
            return False
        state = await stream_state(self._connection, self._stream)
        if state.created != self._created or state.last_sequence < self._after:
            return False
        if self._after == 0:
            return True
        last = await info_at(self._connection, self._stream, self._after)
        return last is not None and last.stored_ns == self._stored_ns

    def _announce(self, _: Message) -> None:
        self._on_write()
