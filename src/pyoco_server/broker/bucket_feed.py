"""The one feed of a bucket in a gateway: each write is read once, and told to one reader.

It is read from the last revision that the reader holds: when somebody asks to be up to date, when a write was
heard of (only while somebody follows, since hearing of all writes is work), and else once a second. Of a key
that was written several times in between, the newest is read.
"""

import asyncio
import logging
import math
import time
from contextlib import suppress
from typing import Final, Protocol

import nats.errors
from nats.aio.subscription import Subscription

from pyoco_server.background import repeat
from pyoco_server.broker.connection import Connection
from pyoco_server.broker.direct_client import DirectClient
from pyoco_server.broker.feed_history import FeedHistory, Held, KnownKey
from pyoco_server.broker.feed_questions import FeedQuestions
from pyoco_server.broker.message import Message, MessageSink
from pyoco_server.broker.stream_reads import (
    EVERYTHING,
    StreamMessage,
    StreamState,
    last_sequence,
    next_sequence,
    read_batch,
    stream_state,
)
from pyoco_server.error_table import Err, ErrorSpec
from pyoco_server.errors import IndexNotReady, NatsUnavailable, PyocoError

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
# Of how many keys at a time the leader is asked whether they are gone.
_ASKED_AT_ONCE: Final = 32
# Who has not read for so long may have missed a removal: its marker is removed in the end as well.
_AWAY_SEC: Final = 60.0


class FeedReader(Protocol):
    """Who is fed. It is called by one task, so that each call ends before the next."""

    @property
    def held(self) -> Held: ...

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
        """Whether it has been up to date, so that it can be asked."""
        ...

    async def begin(self, created: str) -> None:
        """Forget everything: this is another bucket, or the same one with another history."""

    async def take(self, batch: list[StreamMessage]) -> None:
        """Learn from these writes."""

    async def up_to_date(self, state: StreamState) -> None:
        """There was nothing more to read."""

    async def marked_keys(self) -> list[str]:
        """The deleted keys that it remembers, in the order in which they were deleted."""
        ...

    async def forget_markers(self, keys: list[str]) -> None:
        """The bucket has no marker of these any more."""

    async def others(
        self, after: int, upto: int, revisions: list[int], *, limit: int
    ) -> list[tuple[int, str]]:
        """The first it knows with a revision in between that is none of these: revision and key."""
        ...

    async def newest_below(self, revision: int, *, limit: int) -> list[KnownKey]:
        """The keys it knows with the highest revisions below this one, the highest first."""
        ...

    async def drop(self, revisions: list[int]) -> None:
        """Forget what has these revisions: it is gone."""


class BucketFeed:
    """Reads the bucket in the background, from `start` to `close`."""

    def __init__(
        self, connection: Connection, reader: FeedReader, *, bucket: str, of: str, keys: str = "*"
    ) -> None:
        """`of` says in words what is in the bucket; `keys` is the pattern of its keys."""
        self._connection = connection
        self._reader = reader
        self._of = of
        self._stream = f"KV_{bucket}"
        self._prefix = f"$KV.{bucket}."
        self._history = FeedHistory(connection, self._stream, self._prefix)
        # The connection's count of interruptions when the history was last compared.
        self._compared_history_at: int | None = None
        self._hints = _Hints(connection, f"{self._prefix}{keys}", self._heard_of_a_write)
        self._task: asyncio.Task[None] | None = None
        self._stirred = asyncio.Event()
        self._hinted = False
        self._questions = FeedQuestions()
        # How far there is to read, as last seen.
        self._last = 0
        # Between these two revisions the bucket is to be compared with the reader's rows; None: nowhere.
        self._compared: int | None = None
        self._compare_to = 0
        # Not before this, since those who want a list wait meanwhile.
        self._compare_at = 0.0
        # The last sequence when nothing was stored under it any more.
        self._last_missing = 0
        # When all was read last, on this program's own clock.
        self._up_to_date_at = -math.inf
        self._look_sec = _LOOK_SEC
        self._told_trouble = False

    @property
    def behind(self) -> int:
        """At most so many writes have not been read."""
        return max(0, self._last - self._reader.held.revision)

    async def start(self) -> None:
        self._task = asyncio.create_task(
            repeat(f"feed of {self._of}", self._step), name=f"feed-of-{self._of}"
        )

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._questions.fail(self._connection.unavailable("this gateway is stopping"))
        await self._hints.end()

    def require_nats(self) -> None:
        """NatsUnavailable when there is nobody to read from."""
        if not self._connection.ready:
            raise self._connection.unavailable()

    async def caught_up(self) -> None:
        """Wait until all is read that was stored before this call.

        NatsUnavailable when it cannot be read, IndexNotReady when the reader cannot take it.
        """
        self.require_nats()
        answer = self._questions.ask()
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
        try:
            hinted = await self._reason()
            # Before reading: a write behind what is read now is then heard of.
            subscribed = await self._hints.settle()
            await self._catch_up()
            # What was heard of may not be stored yet; and another server of a cluster may not know of the
            # subscription yet, and says nothing of a write meanwhile.
            self._look_sec = _STORED_SEC if hinted or subscribed else _LOOK_SEC
            self._told_trouble = False
            await self._compare()
        except NatsUnavailable as error:
            await self._pause(error, Err.NATS_UNAVAILABLE, _STORED_SEC)
        except IndexNotReady as error:
            await self._pause(error, Err.INDEX_NOT_READY, _LOOK_SEC)
        except BaseException:
            self._questions.fail(self._connection.unavailable(f"the {self._of} could not be read"))
            raise

    async def _reason(self) -> bool:
        """Wait for a reason to read; whether it is that a write was heard of."""
        if self._questions:
            self._stirred.clear()
        else:
            await self._stirs(self._look_sec)
        if self._hinted and not self._questions:
            await self._stirs(_GATHER_SEC)
        hinted, self._hinted = self._hinted, False
        return hinted

    async def _stirs(self, within: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._stirred.wait()
        self._stirred.clear()

    async def _pause(self, error: PyocoError, kind: ErrorSpec, seconds: float) -> None:
        self._questions.fail(error)
        if not self._told_trouble:
            log.warning("the %s cannot be read: %s", self._of, error, extra=kind.log_fields())
        self._told_trouble = True
        # A client that is new has no subscription.
        self._look_sec = _STORED_SEC
        await asyncio.sleep(seconds)

    async def _catch_up(self) -> None:
        """Read what was written since."""
        asked = self._questions.new
        state = await stream_state(self._connection, self._stream)
        await self._begin(state)
        self._questions.set_goal(asked, state.last_sequence)
        while self._reader.held.revision < state.last_sequence != self._last_missing:
            batch = await self._read(after=self._reader.held.revision)
            if not batch:
                await self._is_really_all()
                # The last message was removed: nothing is to be read up to its sequence.
                self._last_missing = state.last_sequence
                break
            await self._reader.take(batch)
            if self._reader.held.created != state.created:
                return  # it broke, and has to begin anew
            await self._answer_on_the_way(state)
        self._last = max(self._reader.held.revision, self._last)
        await self._look_for_what_is_gone(state)
        await self._reader.up_to_date(state)
        self._up_to_date_at = time.monotonic()
        self._questions.answer(upto=state.last_sequence)

    async def _begin(self, state: StreamState) -> None:
        self._last = state.last_sequence
        held = self._reader.held
        interruptions = self._connection.interruptions
        if held.created == state.created:
            if await self._continues(held, state):
                return
            log.warning(
                "the %s have lost their newest messages, and what is known of them is read again; "
                "was a backup restored, or did a server lose its power?",
                self._of,
            )
        await self._reader.begin(state.created)
        self._compared_history_at = interruptions
        # What somebody waits for may be of the bucket that was there before.
        self._questions.restart()
        self._last_missing = 0
        # All that it will know is read now.
        self._compared = None
        self._up_to_date_at = time.monotonic()

    async def _continues(self, held: Held, state: StreamState) -> bool:
        """Whether the bucket still has the history that was read; asked anew after each interruption."""
        if held.revision > state.last_sequence:
            return False
        interruptions = self._connection.interruptions
        if self._compared_history_at != interruptions:
            if not await self._history.continues(held, self._reader):
                return False
            self._compared_history_at = interruptions
        return True

    async def _answer_on_the_way(self, state: StreamState) -> None:
        """Nobody waits for what was written after the question, however much that is."""
        if not self._reader.ready:
            return
        self._questions.answer(upto=self._reader.held.revision)
        if asked := self._questions.new:
            newer = await stream_state(self._connection, self._stream)
            if newer.created == state.created:
                self._last = newer.last_sequence
                self._questions.set_goal(asked, newer.last_sequence)

    async def _is_really_all(self) -> None:
        after = self._reader.held.revision
        if missed := await next_sequence(self._connection, self._stream, after=after):
            raise self._connection.unavailable(f"{self._stream}: a replica has not received {missed} yet")

    # What is gone without a word: its marker was removed while this gateway was away

    async def _look_for_what_is_gone(self, state: StreamState) -> None:
        """Some may be gone after a while without reading; and some are, if the bucket has fewer messages."""
        if self._compared is not None or not self._reader.entries + self._reader.markers:
            return
        was_away = time.monotonic() - self._up_to_date_at > _AWAY_SEC
        if await self._lacks_messages(state) or was_away:
            log.debug("comparing the index of %s with the bucket", self._of)
            self._compared, self._compare_to = 0, self._reader.held.revision

    async def _lacks_messages(self, state: StreamState) -> bool:
        """Whether the bucket has fewer messages than the reader knows keys; markers are removed by sweeps."""
        reader = self._reader
        if reader.held.revision > state.last_sequence:
            return False  # the count is older than what was read
        if reader.entries + reader.markers <= state.messages:
            return False
        marked = await reader.marked_keys()
        for start in range(0, len(marked), _ASKED_AT_ONCE):
            some = list(enumerate(marked[start : start + _ASKED_AT_ONCE]))
            if gone := await self._gone(some):
                await reader.forget_markers([key for at, key in some if at in gone])
            if reader.entries + reader.markers <= state.messages:
                return False
        return True

    async def _compare(self) -> None:
        """Go along the bucket, a little at a time, and have the reader forget what is not there."""
        if self._compared is None or time.monotonic() < self._compare_at:
            return
        self._compare_at = time.monotonic() + _LOOK_SEC
        for _ in range(_COMPARED_BATCHES):
            batch = await self._read(after=self._compared)
            upto = min(batch[-1].sequence, self._compare_to) if batch else self._compare_to
            there = [message.sequence for message in batch]
            others = await self._reader.others(self._compared, upto, there, limit=_BATCH)
            if len(others) == _BATCH:
                upto = others[-1][0]
            if gone := await self._gone(others):
                await self._reader.drop(gone)
            self._compared = None if upto >= self._compare_to else upto
            if self._compared is None:
                return

    async def _gone(self, keys: list[tuple[int, str]]) -> list[int]:
        """The revisions of those keys of which the bucket has nothing, not even something newer."""
        gone = []
        for start in range(0, len(keys), _ASKED_AT_ONCE):
            some = keys[start : start + _ASKED_AT_ONCE]
            # A replica that lags does not have everything; the leader has.
            newest = await asyncio.gather(
                *(last_sequence(self._connection, self._stream, self._prefix + key) for _, key in some)
            )
            gone += [revision for (revision, _), last in zip(some, newest, strict=True) if last == 0]
        return gone

    async def _read(self, *, after: int) -> list[StreamMessage]:
        return await read_batch(
            self._connection, self._stream, EVERYTHING, after=after, limit=_BATCH, max_bytes=_BATCH_BYTES
        )


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

    async def settle(self) -> bool:
        """Subscribe, or end the subscription, as it is wanted now; whether it is a new one."""
        if self._client is not self._connection.client:
            self._subscription = None
        if self.wanted and self._subscription is None:
            self._client = self._connection.client
            self._subscription = await self._connection.subscribe_direct(self._subject, self._sink)
            return True
        if not self.wanted:
            await self.end()
        return False

    async def end(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with suppress(nats.errors.Error):  # it ends with the connection as well
                await subscription.unsubscribe()
