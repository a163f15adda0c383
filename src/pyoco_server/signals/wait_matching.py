"""Brings signals and events to the waits for them: one background loop in each gateway.

It follows the stream of events, the bucket of signals, and the index of waits by revision. An event that
arrives is matched with the waits that the loop has reached. A wait that it reaches later is matched, beside
the loop, with all events since its run was submitted or was to start (event_look_back.py). After a start of
the gateway the loop reaches every open wait, and completes what a gateway that stopped has left undone.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from pyoco_server.aio.background import BackgroundLoop
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_follower import StreamFollower
from pyoco_server.errors import IndexNotReady, NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.records.runs.run_models import WaitKind
from pyoco_server.records.value_types import is_run_id
from pyoco_server.signals.event_matching import EventMatching
from pyoco_server.signals.signal_delivery import SignalDelivery
from pyoco_server.waits.continuation import Continuations
from pyoco_server.waits.each_wait import for_each_wait
from pyoco_server.waits.index.wait_index import TopicWait, WaitIndex, WaitWrite

log = logging.getLogger(__name__)

# Without an announcement: one may have been missed.
_POLL_SEC: Final = 5.0
# After this long, an announced write is stored, or was refused.
_STORED_SEC: Final = 0.1
_RETRY_SEC: Final = 0.5
_BATCH: Final = 500


class WaitMatching:
    def __init__(self, connection: Connection, index: WaitIndex, *, clock: Callable[[], float]) -> None:
        config = connection.config
        self._connection = connection
        self._index = index
        continuations = Continuations(connection)
        self._loop = BackgroundLoop("matching of signals and events", self._step)
        self.event_matching = EventMatching(
            connection, index, continuations, clock=clock, on_room=self._loop.wake
        )
        self.signal_delivery = SignalDelivery(connection, continuations, clock=clock)
        self._event_feed = StreamFollower(
            connection, config.event_stream, f"{config.event_subject_prefix}.*.*.*", self._announce
        )
        self._signal_prefix = f"$KV.{config.signals_kv_bucket}."
        self._signal_feed = StreamFollower(
            connection, f"KV_{config.signals_kv_bucket}", f"{self._signal_prefix}*", self._announce
        )
        # Waits up to this revision of their bucket were given to the look-back at earlier events.
        self._reached = 0
        # The same for signals, which do not wait for a place among the look-backs.
        self._signals_reached = 0
        # Of which bucket this is the revision.
        self._created = ""
        self._pause_sec = 0.0
        self._announced = False
        self._reported_failure = False

    async def start(self) -> None:
        self._loop.start()

    async def close(self) -> None:
        await self._loop.close()
        await self.event_matching.look_back.close()
        await self._event_feed.close()
        await self._signal_feed.close()

    @property
    def received(self) -> dict[WaitKind, int]:
        """How many waits have received a signal or an event here."""
        return {WaitKind.SIGNAL: self.signal_delivery.received, WaitKind.EVENT: self.event_matching.received}

    def take(self, writes: Sequence[WaitWrite]) -> None:
        """Waits have changed; most of them wait for nothing that is sent."""
        if any(write.item is not None and write.item.topic is not None for write in writes):
            self._loop.wake()

    def _announce(self) -> None:
        self._announced = True
        self._loop.wake()

    async def _step(self) -> None:
        await self._connection.wait_ready()
        woken = await self._loop.pause(self._pause_sec)
        announced, self._announced = self._announced, False
        try:
            # A new wait alone needs no look at the streams, unless one is due in a moment.
            only_waits = woken and not announced and self._pause_sec == _POLL_SEC
            await self._match(with_streams=not only_waits)
        except (NatsUnavailable, IndexNotReady) as error:
            if not self._reported_failure and isinstance(error, NatsUnavailable):
                spec = Err.NATS_UNAVAILABLE
                log.warning("matching of signals and events failed: %s", error, extra=spec.log_fields())
                self._reported_failure = True
            self._pause_sec = _RETRY_SEC
        else:
            self._reported_failure = False
            self._pause_sec = _STORED_SEC if announced else _POLL_SEC

    async def _match(self, *, with_streams: bool) -> None:
        # Their positions first: what is stored after them is read from there, what is before is looked up.
        for feed in (self._event_feed, self._signal_feed):
            if await feed.begin():
                await self._look_up_all_again()
        indexed = self._index.checkpoint
        if indexed.created != self._created or indexed.revision < self._reached:
            await self._look_up_all_again()
            self._created = indexed.created
        await self._look_up_new_waits()
        if not with_streams:
            return
        async for batch in self._event_feed.batches():
            await self.event_matching.take(batch, upto=self._reached)
        async for batch in self._signal_feed.batches():
            run_ids = {message.subject.removeprefix(self._signal_prefix) for message in batch}
            await self._deliver({run_id for run_id in run_ids if is_run_id(run_id)})

    async def _look_up_all_again(self) -> None:
        self._reached = self._signals_reached = 0
        await self.event_matching.look_back.close()

    async def _look_up_new_waits(self) -> None:
        while waits := await self._new_waits(self._signals_reached):
            signalled = {wait.run_id for wait in waits if wait.kind is WaitKind.SIGNAL}
            await for_each_wait(self.signal_delivery.deliver, signalled, urgent=self._connection.urgent)
            self._signals_reached = waits[-1].revision
        look_back = self.event_matching.look_back
        while not look_back.is_full and (waits := await self._new_waits(self._reached)):
            look_back.begin(wait for wait in waits if wait.kind is WaitKind.EVENT)
            self._reached = waits[-1].revision

    async def _new_waits(self, after: int) -> list[TopicWait]:
        return await self._index.open_for_topics(after=after, limit=_BATCH)

    async def _deliver(self, run_ids: set[str]) -> None:
        waiting = await self._index.waiting_for_signals(run_ids)
        await for_each_wait(self.signal_delivery.deliver, waiting, urgent=self._connection.urgent)
