"""The one feed of the runs bucket in a gateway: each write is read once, and told to one reader.

It is read from the last revision that the reader holds: when somebody asks to be up to date, when a write was
heard of (only while somebody follows, since hearing of all writes is work), and else once a second. Of a run
that was written several times in between, the newest is read.
"""

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

import nats.errors
from nats.aio.subscription import Subscription

from pyoco_server.background import repeat
from pyoco_server.broker.connection import Connection
from pyoco_server.broker.direct_client import DirectClient
from pyoco_server.broker.message import Message, MessageSink
from pyoco_server.broker.stream_reads import (
    EVERYTHING,
    StreamMessage,
    StreamState,
    message_at,
    next_sequence,
    read_batch,
    stream_state,
)
from pyoco_server.errors import Err, NatsUnavailable

log = logging.getLogger(__name__)

_LOOK_SEC: Final = 1.0
# Writes come in groups, and are heard of before they can be read.
_GATHER_SEC: Final = 0.02
# After this long, what was heard of is stored, or was refused.
_STORED_SEC: Final = 0.1
_BATCH: Final = 512
_BATCH_BYTES: Final = 4 * 1024 * 1024
# How many batches of the bucket are compared with the reader's rows in a second.
_COMPARED_BATCHES: Final = 2


@dataclass(frozen=True, slots=True)
class Held:
    """What the reader knows: all writes up to the revision, of the bucket that was made at that time."""

    created: str
    revision: int


class FeedReader(Protocol):
    """Who is fed. It is called by one task, so that each call ends before the next."""

    @property
    def held(self) -> Held: ...

    @property
    def runs(self) -> int:
        """How many runs it knows."""
        ...

    async def begin(self, created: str) -> None:
        """Forget everything: this is another bucket."""

    async def take(self, batch: list[StreamMessage]) -> None:
        """Learn from these writes."""

    async def up_to_date(self, state: StreamState) -> None:
        """There was nothing more to read."""

    async def others(self, after: int, upto: int, revisions: list[int]) -> list[int]:
        """The revisions of runs it knows that are in between, and none of these."""
        ...

    async def drop(self, revisions: list[int]) -> None:
        """Forget the runs with these revisions: they are gone."""


class RunFeed:
    """Reads the bucket in the background, from `start` to `close`."""

    def __init__(self, connection: Connection, reader: FeedReader) -> None:
        bucket = connection.config.runs_kv_bucket
        self._connection = connection
        self._reader = reader
        self._stream = f"KV_{bucket}"
        self._hints = _Hints(connection, f"$KV.{bucket}.*", self._heard_of_a_write)
        self._task: asyncio.Task[None] | None = None
        self._stirred = asyncio.Event()
        self._hinted = False
        self._asked: list[asyncio.Future[None]] = []
        # How far there is to read, as last seen.
        self._last = 0
        # Up to here the bucket was compared with the reader's rows; None: there is no need to.
        self._compared: int | None = None
        # Not before this, since those who want a list wait meanwhile.
        self._compare_at = 0.0
        # The last sequence when nothing was stored under it any more.
        self._last_missing = 0
        self._look_sec = _LOOK_SEC
        self._told_outage = False

    @property
    def behind(self) -> int:
        """At most so many writes have not been read."""
        return max(0, self._last - self._reader.held.revision)

    async def start(self) -> None:
        self._task = asyncio.create_task(repeat("run feed", self._step), name="run-feed")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        _answer(self._asked, self._connection.unavailable("this gateway is stopping"))
        await self._hints.end()

    def require_nats(self) -> None:
        """NatsUnavailable when there is nobody to read from."""
        if not self._connection.ready:
            raise self._connection.unavailable()

    async def caught_up(self) -> None:
        """Wait until all is read that was stored before this call; NatsUnavailable when it cannot be."""
        self.require_nats()
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked.append(answer)
        self._stirred.set()
        await answer

    def hurry(self, live: bool) -> None:
        """Whether somebody wants to know of each write at once."""
        self._hints.wanted = live
        self._stirred.set()

    def _heard_of_a_write(self, message: Message) -> None:
        if not self._hinted:
            self._hinted = True
            self._stirred.set()

    async def _step(self) -> None:
        await self._connection.wait_ready()
        asked: list[asyncio.Future[None]] = []
        try:
            await self._hints.settle()
            hinted = await self._reason()
            asked, self._asked = self._asked, []
            found = await self._catch_up()
            # What was heard of may not be stored yet, or was refused.
            self._look_sec = _STORED_SEC if hinted and not found else _LOOK_SEC
        except NatsUnavailable as error:
            _answer(asked, error)
            await self._pause(error)
        except BaseException:
            _answer(asked, self._connection.unavailable("the runs could not be read"))
            raise
        else:
            self._told_outage = False
            _answer(asked)
            await self._compare()

    async def _reason(self) -> bool:
        """Wait for a reason to read; whether it is that a write was heard of."""
        await self._stirs(self._look_sec)
        if self._hinted and not self._asked:
            await self._stirs(_GATHER_SEC)
        hinted, self._hinted = self._hinted, False
        return hinted

    async def _stirs(self, within: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._stirred.wait()
        self._stirred.clear()

    async def _pause(self, error: NatsUnavailable) -> None:
        if not self._told_outage:
            log.warning("the runs cannot be read: %s", error, extra=Err.NATS_UNAVAILABLE.log_fields())
        self._told_outage = True
        await asyncio.sleep(_STORED_SEC)

    async def _catch_up(self) -> bool:
        """Read what was written since; whether there was anything."""
        state = await stream_state(self._connection, self._stream)
        self._last = state.last_sequence
        held = self._reader.held
        if held.created != state.created or held.revision > state.last_sequence:
            await self._reader.begin(state.created)
            self._last_missing = 0
            self._compared = None
        before = self._reader.held.revision
        while self._reader.held.revision < state.last_sequence != self._last_missing:
            batch = await self._read(after=self._reader.held.revision)
            if not batch:
                await self._is_really_all()
                # The last message was removed: nothing is to be read up to its sequence.
                self._last_missing = state.last_sequence
                break
            await self._reader.take(batch)
        self._last = max(self._reader.held.revision, self._last)
        await self._reader.up_to_date(state)
        self._begin_to_compare(state)
        return self._reader.held.revision != before

    async def _is_really_all(self) -> None:
        after = self._reader.held.revision
        if missed := await next_sequence(self._connection, self._stream, after=after):
            raise self._connection.unavailable(f"{self._stream}: a replica has not received {missed} yet")

    # Runs that are gone without a word: their markers were removed while this gateway was away

    def _begin_to_compare(self, state: StreamState) -> None:
        """The bucket has one message per run, or more; if it has fewer, some runs are gone."""
        is_exact = self._reader.held.revision <= state.last_sequence
        if self._compared is None and is_exact and self._reader.runs > state.messages:
            log.info("the index has runs that are gone: comparing it with the bucket")
            self._compared = 0

    async def _compare(self) -> None:
        """Go along the bucket, a little at a time, and have the reader forget what is not there."""
        if self._compared is None or time.monotonic() < self._compare_at:
            return
        self._compare_at = time.monotonic() + _LOOK_SEC
        for _ in range(_COMPARED_BATCHES):
            held = self._reader.held.revision
            batch = await self._read(after=self._compared)
            upto = batch[-1].sequence if batch and batch[-1].sequence < held else held
            known = await self._reader.others(self._compared, upto, [message.sequence for message in batch])
            await self._reader.drop([revision for revision in known if await self._is_gone(revision)])
            self._compared = None if upto == held else upto
            if self._compared is None:
                return

    async def _is_gone(self, revision: int) -> bool:
        # A replica that lags does not have everything; the leader has.
        return await message_at(self._connection, self._stream, revision) is None

    async def _read(self, *, after: int) -> list[StreamMessage]:
        return await read_batch(
            self._connection, self._stream, EVERYTHING, after=after, limit=_BATCH, max_bytes=_BATCH_BYTES
        )


def _answer(asked: list[asyncio.Future[None]], error: NatsUnavailable | None = None) -> None:
    for answer in asked:
        # Who asked may have stopped waiting.
        if answer.done():
            continue
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)


class _Hints:
    """A subscription to all writes, there while it is wanted."""

    def __init__(self, connection: Connection, subject: str, sink: MessageSink) -> None:
        self._connection = connection
        self._subject = subject
        self._sink = sink
        self._subscription: Subscription | None = None
        # A subscription ends with its client.
        self._client: DirectClient | None = None
        self.wanted = False

    async def settle(self) -> None:
        """Subscribe, or end the subscription, as it is wanted now."""
        if self._client is not self._connection.client:
            self._subscription = None
        if self.wanted and self._subscription is None:
            self._client = self._connection.client
            self._subscription = await self._connection.subscribe_direct(self._subject, self._sink)
        elif not self.wanted:
            await self.end()

    async def end(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with suppress(nats.errors.Error):  # it ends with the connection as well
                await subscription.unsubscribe()
