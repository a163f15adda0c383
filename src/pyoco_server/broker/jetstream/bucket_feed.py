"""The feed of a bucket in a gateway: reads each write once, and passes it to one reader.

It reads from the reader's checkpoint: when a caller waits for it, when a write is announced (only while there
are followers, since every announcement is work), and else once a second. Of a key that was written several
times in between, it reads the newest.
"""

import asyncio
import logging
import math
import time
from typing import Final

from pyoco_server.aio.background import BackgroundLoop
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.client.subscriptions import RenewableSubscription
from pyoco_server.broker.jetstream.feed_history import Checkpoint, FeedHistory, FeedReader, HistoryComparison
from pyoco_server.broker.jetstream.removed_keys import RemovedKeys
from pyoco_server.broker.jetstream.stream_cursor import StreamCursor
from pyoco_server.broker.jetstream.stream_reads import (
    StreamMessage,
    StreamState,
    next_info,
    require_end,
    stream_state,
)
from pyoco_server.errors import IndexNotReady, NatsUnavailable, PyocoError
from pyoco_server.errors.error_table import Err, ErrorSpec

log = logging.getLogger(__name__)

_POLL_SEC: Final = 1.0
# Longer than a gateway needs that starts with an existing index, and not longer than a client should wait.
_CATCH_UP_SEC: Final = 1.0
# The shortest pause after an announced write: they come in groups, and are announced before they can be read.
_DEBOUNCE_SEC: Final = 0.02
# The longest one, while very many writes come: reading them a few at a time would cost more than the writes.
_MAX_DEBOUNCE_SEC: Final = 0.25
# After this long, an announced write is stored, or was refused.
_STORED_SEC: Final = 0.1
# How long a batch that has missed a message waits for it.
_MISSED_SEC: Final = 0.5
# While the reader is filled.
_BATCH: Final = 512
# Then: a request waits behind a batch, in the connection, and for the core on which the reader stores it.
_READY_BATCH: Final = 128
# While nobody waits for it and few requests come: each of these waits for a batch.
_SMALL_BATCH: Final = 64
_BATCH_BYTES: Final = 4 * 1024 * 1024
# The pause between batches, in multiples of the time that a batch took.
_PAUSE_PER_BATCH: Final = 4.0
# A program that sends more than `_BUSY_MESSAGES` in `_BUSY_SEC` is busy with requests: it reads later.
_BUSY_MESSAGES: Final = 50
_BUSY_SEC: Final = 0.05
# How long reading is deferred at most while the program is busy.
_MAX_DEFER_SEC: Final = 2.0
# It reads without any pause when it has sent so many messages since everything was read, or when so many are
# not read: the next list has to wait for them.
_MAX_UNREAD_SENT: Final = 5_000
_MAX_BEHIND: Final = 50_000
# A reader that was not up to date for so long may have missed a removal: the marker is removed in the end.
_AWAY_SEC: Final = 60.0


class BucketFeed:
    """Reads the bucket in the background, from `start` to `close`."""

    def __init__(
        self,
        connection: Connection,
        reader: FeedReader,
        *,
        bucket: str,
        label: str,
        keys: str = "*",
        prefix: str = "",
    ) -> None:
        """`label` says in words what is in the bucket; `keys` is the pattern of its keys.

        With a `prefix` of subjects, `bucket` is a stream, which has one message per subject as a bucket has.
        """
        self._connection = connection
        self._reader = reader
        self._label = label
        self._stream = bucket if prefix else f"KV_{bucket}"
        prefix = prefix or f"$KV.{bucket}."
        self._history = FeedHistory(connection, self._stream, prefix)
        self._cursor = StreamCursor(connection, self._stream)
        self._removed = RemovedKeys(connection, self._stream, prefix, reader)
        # The connection's count of interruptions when the history was last compared.
        self._compared_history_at: int | None = None
        self._loop = BackgroundLoop(f"feed of {label}", self._step)
        self._writes = RenewableSubscription(connection, self._on_write, f"{prefix}{keys}")
        self._live = False
        self._announced = False
        self._barriers = _Barriers()
        # The last sequence as last seen.
        self._last = 0
        # The last sequence, when its message has been removed.
        self._last_missing = 0
        # When everything was read last, by the monotonic clock, and what had been sent by then.
        self._up_to_date_at = -math.inf
        self._up_to_date_sent = 0
        # At first at once: what is there is read before much is written.
        self._pause_sec = 0.0
        # How long it took to read what had been written.
        self._read_sec = 0.0
        # Whether many requests came when that was last checked.
        self._busy = False
        self._reported_problem = False

    @property
    def behind(self) -> int:
        """How many writes are unread, at most."""
        return max(0, self._last - self._reader.checkpoint.revision)

    async def start(self) -> None:
        self._loop.start()

    async def close(self) -> None:
        await self._loop.close()
        self._barriers.fail(self._connection.unavailable("this gateway is stopping"))
        await self._writes.end()
        await self._removed.close()
        await self._cursor.close()

    def require_nats(self) -> None:
        """Raise NatsUnavailable while NATS cannot be read."""
        if not self._connection.ready:
            raise self._connection.unavailable()

    async def caught_up(self) -> None:
        """Wait until everything is read that was stored before this call.

        NatsUnavailable when it cannot be read, IndexNotReady when the reader cannot take it.
        """
        self.require_nats()
        barrier = self._barriers.add()
        self._loop.wake()
        await barrier

    async def caught_up_in_time(self) -> bool:
        """Wait for it, but not longer than a client should; returns whether everything is read."""
        try:
            async with asyncio.timeout(_CATCH_UP_SEC):
                await self.caught_up()
        except TimeoutError:
            self.require_nats()
            return False
        return True

    def set_live(self, live: bool) -> None:
        """Whether each write is to be read at once."""
        self._live = live
        self._loop.wake()

    def _on_write(self, _: Message) -> None:
        if not self._announced:
            self._announced = True
            self._loop.wake()

    async def _step(self) -> None:
        await self._connection.wait_ready()
        try:
            announced = await self._wait_for_cause()
            await self._defer_while_busy()
            # Before reading: a write after what is read now is then announced.
            subscribed = await self._follow_writes()
            began = time.monotonic()
            await self._catch_up()
            self._read_sec = time.monotonic() - began
            # An announced write may not be stored yet; and another server of a cluster may not know of the
            # subscription yet, and announces nothing meanwhile.
            self._pause_sec = _STORED_SEC if announced or subscribed else _POLL_SEC
            self._reported_problem = False
            await self._removed.run_due_steps()
        except NatsUnavailable as error:
            await self._pause_after(error, Err.NATS_UNAVAILABLE, _STORED_SEC)
        except IndexNotReady as error:
            await self._pause_after(error, Err.INDEX_NOT_READY, _POLL_SEC)
        except BaseException:
            self._barriers.fail(self._connection.unavailable(f"the {self._label} could not be read"))
            raise

    async def _wait_for_cause(self) -> bool:
        """Wait for a reason to read; return whether it is an announced write."""
        await self._loop.pause(0 if self._barriers else self._pause_sec)
        if self._announced and not self._barriers:
            await self._loop.pause(debounce_sec(self._read_sec))
        announced, self._announced = self._announced, False
        return announced

    async def _follow_writes(self) -> bool:
        """Return whether this is a new subscription."""
        if self._live:
            return await self._writes.renew()
        await self._writes.end()
        return False

    async def _pause_after(self, error: PyocoError, kind: ErrorSpec, seconds: float) -> None:
        self._barriers.fail(error)
        if not self._reported_problem:
            log.warning("cannot read the %s: %s", self._label, error, extra=kind.log_fields())
        self._reported_problem = True
        # A new client has no subscription.
        self._pause_sec = _STORED_SEC
        await asyncio.sleep(seconds)

    async def _catch_up(self) -> None:
        """Read what was written since."""
        barriers = self._barriers.new
        interruptions = self._connection.interruptions
        state = await stream_state(self._connection, self._stream)
        await self._begin(state, interruptions)
        self._barriers.set_goal(barriers, state.last_sequence)
        began_at, began_after = time.monotonic(), self._reader.checkpoint.revision
        while self._reader.checkpoint.revision < state.last_sequence != self._last_missing:
            after = self._reader.checkpoint.revision
            batch = await self._read(after=after) or await self._read_again(after=after)
            if self._connection.interruptions != interruptions:
                return  # this may be of another history than what was compared
            if not batch:
                # The last message was removed: nothing is to be read up to its sequence.
                self._last_missing = state.last_sequence
                break
            started = time.monotonic()
            await self._reader.take(batch)
            if self._reader.checkpoint.created != state.created:
                return  # the reader failed, and has to begin again
            await self._pass_barriers(state, interruptions)
            await self._yield_to_requests(time.monotonic() - started)
        self._last = max(self._reader.checkpoint.revision, self._last)
        self._look_for_removed_keys(state, began_at, began_after)
        await self._reader.up_to_date(state)
        self._up_to_date_at, self._up_to_date_sent = time.monotonic(), self._connection.messages_sent
        self._barriers.passed(upto=state.last_sequence)

    async def _yield_to_requests(self, took_sec: float) -> None:
        """Pause between two batches while nobody waits for what is read: requests need the processor.

        It also saves work: a run that ends meanwhile is read once.
        """
        if self._may_pause:
            await self._loop.pause(took_sec * _PAUSE_PER_BATCH)
            await self._defer_while_busy()

    async def _defer_while_busy(self) -> None:
        """Read a burst of submits after it, when its requests are answered."""
        latest = self._up_to_date_at + _MAX_DEFER_SEC
        while self._may_pause and time.monotonic() < latest:
            sent = self._connection.messages_sent
            await self._loop.pause(_BUSY_SEC)
            self._busy = self._connection.messages_sent - sent > _BUSY_MESSAGES
            if not self._busy:
                break

    @property
    def _may_pause(self) -> bool:
        """Whether nobody waits for what is read, and not too much is unread."""
        return (
            self._reader.ready
            and not self._live
            and not self._barriers
            and self._connection.messages_sent - self._up_to_date_sent < _MAX_UNREAD_SENT
            and self.behind < _MAX_BEHIND
        )

    async def _begin(self, state: StreamState, interruptions: int) -> None:
        self._last = state.last_sequence
        checkpoint = self._reader.checkpoint
        if checkpoint.created == state.created and await self._continues(checkpoint, state, interruptions):
            return
        await self._reader.begin(state.created)
        self._compared_history_at = interruptions
        # The goals may be sequences of the bucket that was there before.
        self._barriers.restart()
        self._last_missing = 0
        # Everything the reader will know is read now.
        self._removed.stop()
        self._up_to_date_at = time.monotonic()

    async def _continues(self, checkpoint: Checkpoint, state: StreamState, interruptions: int) -> bool:
        """Whether the bucket still has the history that was read; compared again after each interruption."""
        if self._compared_history_at == interruptions and checkpoint.revision <= state.last_sequence:
            return True
        result = await self._history.compare(checkpoint, self._reader, state)
        if result is HistoryComparison.TRUNCATED:
            log.warning(
                "the %s have lost their newest messages, and are read again; "
                "was a backup restored, or did a server lose its power?",
                self._label,
            )
            return False
        if result is HistoryComparison.TOO_MUCH_CHANGED:
            log.info("too many %s were written or removed meanwhile: all are read again", self._label)
            return False
        self._compared_history_at = interruptions
        # A goal may be lost, and there may be another message under that sequence now.
        self._barriers.restart()
        self._last_missing = 0
        if result is HistoryComparison.KEYS_MISSING:
            self._removed.compare_all(upto=checkpoint.revision)
        return True

    async def _pass_barriers(self, state: StreamState, interruptions: int) -> None:
        """No caller waits for what was written after its call, however much that is."""
        if not self._reader.ready:
            return
        self._barriers.passed(upto=self._reader.checkpoint.revision)
        if barriers := self._barriers.new:
            newer = await stream_state(self._connection, self._stream)
            # After an interruption it may be of another history: the next `_begin` compares them.
            if newer.created == state.created and self._connection.interruptions == interruptions:
                self._last = newer.last_sequence
                self._barriers.set_goal(barriers, newer.last_sequence)
                # The batch may have reached it: it has everything that was stored when it was read.
                self._barriers.passed(upto=self._reader.checkpoint.revision)

    def _look_for_removed_keys(self, state: StreamState, began_at: float, began_after: int) -> None:
        """Markers may have been removed unread; some were, if the bucket has fewer messages.

        What came after `began_after` was read since `began_at`.
        """
        reader = self._reader
        known = reader.entries + reader.markers
        if not known:
            return
        revision = reader.checkpoint.revision
        if time.monotonic() - self._up_to_date_at > _AWAY_SEC:
            # What was read a moment ago is there: a gateway that fills its index compares nothing.
            is_recent = time.monotonic() - began_at < _AWAY_SEC
            self._removed.compare_all(upto=began_after if is_recent else revision)
        # A count that is older than what was read says nothing.
        if revision <= state.last_sequence and known > state.messages:
            self._removed.explain(known - state.messages, upto=revision)

    async def _read_again(self, *, after: int) -> list[StreamMessage]:
        """What an empty batch has missed; NatsUnavailable if a replica does not have it yet.

        A batch is empty as well if the last message was replaced by a newer one while it was read.
        """
        if await next_info(self._connection, self._stream, after=after) is None:
            return []
        batch = await self._cursor.wait_for_next(after=after, seconds=_MISSED_SEC)
        if not batch:
            await require_end(self._connection, self._stream, after=after)
        return batch

    async def _read(self, *, after: int) -> list[StreamMessage]:
        if self._reader.ready and not self._barriers:
            await self._connection.urgent.give_way()
        limit = _READY_BATCH if self._reader.ready else _BATCH
        if self._may_pause and not self._busy:
            limit = _SMALL_BATCH
        return await self._cursor.read(after=after, limit=limit, max_bytes=_BATCH_BYTES)


def debounce_sec(last_read_sec: float) -> float:
    """How long to wait for more writes after an announced one: reading takes a fifth of the time at most."""
    return min(max(_DEBOUNCE_SEC, last_read_sec * _PAUSE_PER_BATCH), _MAX_DEBOUNCE_SEC)


class _Barriers:
    """Callers that wait until everything is read that was stored before their call, and nothing beyond."""

    def __init__(self) -> None:
        # Those whose goal is not known yet.
        self.new: list[asyncio.Future[None]] = []
        # With the revision that each waits for.
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def __bool__(self) -> bool:
        return bool(self.new or self._waiting)

    def add(self) -> asyncio.Future[None]:
        barrier: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # A new list: `set_goal` may be called with the old one, which does not include this barrier.
        self.new = [*self.new, barrier]
        return barrier

    def set_goal(self, barriers: list[asyncio.Future[None]], revision: int) -> None:
        """These wait for this revision: it was the last one after they were added."""
        self._waiting += [(revision, barrier) for barrier in barriers]
        self.new = self.new[len(barriers) :]

    def restart(self) -> None:
        """Drop the goals: they belong to another history."""
        self.new += [barrier for _, barrier in self._waiting]
        self._waiting = []

    def passed(self, *, upto: int) -> None:
        for revision, barrier in self._waiting:
            # The caller may have been cancelled.
            if revision <= upto and not barrier.done():
                barrier.set_result(None)
        self._waiting = [(revision, barrier) for revision, barrier in self._waiting if not barrier.done()]

    def fail(self, error: PyocoError) -> None:
        self.restart()
        for barrier in self.new:
            if not barrier.done():
                barrier.set_exception(error)
        self.new = []
