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

from pyoco_server.aio.background import repeat
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.direct_client import DirectClient
from pyoco_server.broker.client.message import Message, MessageSink
from pyoco_server.broker.jetstream.feed_barriers import FeedQuestions
from pyoco_server.broker.jetstream.feed_history import Comparison, FeedHistory, Held, KnownKey
from pyoco_server.broker.jetstream.removed_keys import RemovedKeys
from pyoco_server.broker.jetstream.stream_reads import (
    EVERYTHING,
    StreamMessage,
    StreamState,
    next_sequence,
    read_batch,
    stream_state,
)
from pyoco_server.errors import IndexNotReady, NatsUnavailable, PyocoError
from pyoco_server.errors.error_table import Err, ErrorSpec

log = logging.getLogger(__name__)

_LOOK_SEC: Final = 1.0
# Writes come in groups, and are heard of before they can be read.
_GATHER_SEC: Final = 0.02
# After this long, what was heard of is stored, or was refused.
_STORED_SEC: Final = 0.1
_BATCH: Final = 512
_BATCH_BYTES: Final = 4 * 1024 * 1024
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

    async def first_markers(self, *, after: int, limit: int) -> list[tuple[int, str]]:
        """Of the deleted keys that it remembers the oldest behind this revision: revision and key."""
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
        self._removed = RemovedKeys(connection, self._stream, self._prefix, reader)
        # The connection's count of interruptions when the history was last compared.
        self._compared_history_at: int | None = None
        self._hints = _Hints(connection, f"{self._prefix}{keys}", self._heard_of_a_write)
        self._task: asyncio.Task[None] | None = None
        self._stirred = asyncio.Event()
        self._hinted = False
        self._questions = FeedQuestions()
        # How far there is to read, as last seen.
        self._last = 0
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
            await self._removed.look()
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
        interruptions = self._connection.interruptions
        state = await stream_state(self._connection, self._stream)
        await self._begin(state, interruptions)
        self._questions.set_goal(asked, state.last_sequence)
        while self._reader.held.revision < state.last_sequence != self._last_missing:
            batch = await self._read(after=self._reader.held.revision)
            if not batch:
                await self._is_really_all()
            if self._connection.interruptions != interruptions:
                return  # this may be of another history than what was compared
            if not batch:
                # The last message was removed: nothing is to be read up to its sequence.
                self._last_missing = state.last_sequence
                break
            await self._reader.take(batch)
            if self._reader.held.created != state.created:
                return  # it broke, and has to begin anew
            await self._answer_on_the_way(state)
        self._last = max(self._reader.held.revision, self._last)
        self._look_for_removed_keys(state)
        await self._reader.up_to_date(state)
        self._up_to_date_at = time.monotonic()
        self._questions.answer(upto=state.last_sequence)

    async def _begin(self, state: StreamState, interruptions: int) -> None:
        self._last = state.last_sequence
        held = self._reader.held
        if held.created == state.created and await self._continues(held, state, interruptions):
            return
        await self._reader.begin(state.created)
        self._compared_history_at = interruptions
        # What somebody waits for may be of the bucket that was there before.
        self._questions.restart()
        self._last_missing = 0
        # All that it will know is read now.
        self._removed.stop()
        self._up_to_date_at = time.monotonic()

    async def _continues(self, held: Held, state: StreamState, interruptions: int) -> bool:
        """Whether the bucket still has the history that was read; asked anew after each interruption."""
        if self._compared_history_at == interruptions and held.revision <= state.last_sequence:
            return True
        result = await self._history.compare(held, self._reader, state)
        if result is Comparison.LOST:
            log.warning(
                "the %s have lost their newest messages, and what is known of them is read again; "
                "was a backup restored, or did a server lose its power?",
                self._of,
            )
            return False
        if result is Comparison.TOO_MUCH_CHANGED:
            log.info("too many %s were written or removed meanwhile: all are read again", self._of)
            return False
        self._compared_history_at = interruptions
        # What somebody waits for may be lost, and there may be another message under that sequence now.
        self._questions.restart()
        self._last_missing = 0
        if result is Comparison.KEYS_MISSING:
            self._removed.compare_all(upto=held.revision)
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

    def _look_for_removed_keys(self, state: StreamState) -> None:
        """Their markers may have been removed unread; and some were, if the bucket has fewer messages."""
        reader = self._reader
        known = reader.entries + reader.markers
        if not known:
            return
        if time.monotonic() - self._up_to_date_at > _AWAY_SEC:
            self._removed.compare_all(upto=reader.held.revision)
        # A count that is older than what was read says nothing.
        if reader.held.revision <= state.last_sequence and known > state.messages:
            self._removed.explain(known - state.messages, upto=reader.held.revision)

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
