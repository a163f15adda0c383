"""Finds the events that came before a wait for them, beside the matching of new events.

Each topic has a task of its own, which reads its events since the runs were submitted or were to start: a
topic with many stored events delays no other one, and no new event. While the look-back of a wait is in
progress, new events are not matched with it; the look-back continues until it has read them. So the wait
misses none, and receives the first one that counts.

It is repeated for as long as NATS is unreachable. After another error each wait of the topic is looked up by
itself, and one that fails several times is given up: it receives new events only, and no other wait is held
up by it.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pyoco_server.aio.background import Backoff
from pyoco_server.aio.parallel import for_each_item
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import MessageInfo
from pyoco_server.broker.stores.waits.sent_event_store import SentEventStore, StoredEvent
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.records.json_pointers import matches
from pyoco_server.waits.each_wait import for_each_wait
from pyoco_server.waits.index.wait_index import TopicWait

log = logging.getLogger(__name__)

# With so many topics at a time, no more waits are taken.
_MAX_TOPICS: Final = 256
_RUNS_AT_ONCE: Final = 32
_RETRY_SEC: Final = 0.5
# Of a wait by itself, with an error that is not about NATS: the pause doubles, so this takes half a minute.
_MOST_TRIES: Final = 7


@dataclass(slots=True)
class _Topic:
    tenant_id: str | None
    name: str
    task: asyncio.Task[None] | None = None
    # Those whose look-back begins next, by their ids.
    waits: dict[str, TopicWait] = field(default_factory=dict)
    # The ids of all whose look-back is not complete.
    incomplete: set[str] = field(default_factory=set)
    # The newest event that was not matched with one of them.
    passed_over: int = 0


class EventLookBack:
    def __init__(
        self,
        connection: Connection,
        events: SentEventStore,
        *,
        counting_from: Callable[[TopicWait], Awaitable[float | None]],
        receive: Callable[[StoredEvent, str], Awaitable[bool]],
        on_room: Callable[[], None],
    ) -> None:
        """`counting_from` is since when events count for a wait (None: it needs none). `receive` gives a wait
        an event, and returns whether it needs no other. `on_room` is called when it is no longer full.
        """
        self._connection = connection
        self._events = events
        self._counting_from = counting_from
        self._receive = receive
        self._on_room = on_room
        self._topics: dict[tuple[str | None, str], _Topic] = {}
        self._reported_failure = False

    @property
    def is_full(self) -> bool:
        return len(self._topics) >= _MAX_TOPICS

    @property
    def is_complete(self) -> bool:
        return not self._topics

    def begin(self, waits: Iterable[TopicWait]) -> None:
        for wait in waits:
            key = wait.tenant_id, wait.topic
            topic = self._topics.setdefault(key, _Topic(*key))
            topic.waits[wait.wait_id] = wait
            topic.incomplete.add(wait.wait_id)
            if topic.task is None:
                topic.task = asyncio.create_task(self._look_back_topic(topic), name=f"look-back {wait.topic}")

    async def close(self) -> None:
        """Give up what is not complete."""
        tasks = [topic.task for topic in self._topics.values() if topic.task is not None]
        self._topics = {}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def ready_for(self, event: StoredEvent, waits: Sequence[TopicWait]) -> Sequence[TopicWait]:
        """Those of the waits that may receive this new event; the look-back of the others will find it."""
        topic = self._topics.get((event.record.tenant_id, event.record.name))
        if topic is None:
            return waits
        ready = [wait for wait in waits if wait.wait_id not in topic.incomplete]
        if len(ready) < len(waits):
            topic.passed_over = max(topic.passed_over, event.sequence)
        return ready

    async def _look_back_topic(self, topic: _Topic) -> None:
        while topic.waits:
            waits, topic.waits = topic.waits, {}
            if not await self._succeeds(topic, list(waits.values())):
                await self._look_back_each(topic, waits.values())
            topic.incomplete.difference_update(waits.keys() - topic.waits.keys())
        was_full = self.is_full
        del self._topics[topic.tenant_id, topic.name]
        if was_full:
            self._on_room()

    async def _look_back_each(self, topic: _Topic, waits: Iterable[TopicWait]) -> None:
        """Each wait by itself, since at least one of them cannot be looked up."""
        backoff = Backoff(_RETRY_SEC, math.inf)
        left = list(waits)
        for tries_left in reversed(range(_MOST_TRIES)):
            failed = [wait for wait in left if not await self._succeeds(topic, [wait])]
            topic.incomplete.difference_update({wait.wait_id for wait in left} - topic.waits.keys())
            topic.incomplete.update(wait.wait_id for wait in failed)
            left = failed
            if not left or not tries_left:
                break
            await asyncio.sleep(backoff.next_sec())
        for wait in left:
            said = "gave up looking for earlier events %s for a wait: it receives new ones only"
            log.error(said, topic.name, extra={"run_id": wait.run_id, "wait_id": wait.wait_id})

    async def _succeeds(self, topic: _Topic, waits: Sequence[TopicWait]) -> bool:
        """False after an unexpected error; while NATS is unreachable it is repeated."""
        while True:
            try:
                await self._look_back(topic, waits)
            except NatsUnavailable as error:
                if not self._reported_failure:
                    extra = Err.NATS_UNAVAILABLE.log_fields()
                    log.warning("looking for earlier events failed: %s", error, extra=extra)
                self._reported_failure = True
                await asyncio.sleep(_RETRY_SEC)
                await self._connection.wait_ready()
            except Exception:
                log.exception("looking for earlier events %s: unexpected error", topic.name)
                return False
            else:
                self._reported_failure = False
                return True

    async def _look_back(self, topic: _Topic, waits: Sequence[TopicWait]) -> None:
        # Those that need an event, and since when events count for each; None: not known yet.
        left: dict[TopicWait, float] | None = None
        after = 0
        while True:
            passed_over = topic.passed_over
            newest = await self._events.newest(topic.tenant_id, topic.name)
            if newest is not None:
                if left is None:
                    left = await self._read_counting_from(waits)
                left = await self._give_events(left, newest, after)
                after = newest.sequence
            # No await from here on, so that no event can pass these waits over unseen. One that did may have
            # been removed since: then there is nothing more to read.
            if left == {} or topic.passed_over <= after or topic.passed_over == passed_over:
                return

    async def _read_counting_from(self, waits: Sequence[TopicWait]) -> dict[TopicWait, float]:
        starts: dict[TopicWait, float] = {}
        failures: list[Exception] = []

        async def find(wait: TopicWait) -> bool:
            try:
                since = await self._counting_from(wait)
            except Exception as error:  # noqa: BLE001 - raised below, alone
                failures.append(error)
                return False
            if since is not None:
                starts[wait] = since
            return True

        await for_each_item(find, waits, at_once=_RUNS_AT_ONCE, urgent=self._connection.urgent)
        if failures:
            raise failures[0]
        return starts

    async def _give_events(
        self, left: dict[TopicWait, float], newest: MessageInfo, after: int
    ) -> dict[TopicWait, float]:
        """Give the waits the events after this one, up to the newest; those that still need one."""
        if not left:
            return left
        async for event in self._events.up_to(newest, since=min(left.values()), after=after):
            matching = {
                wait.wait_id
                for wait, since in left.items()
                if event.stored_at >= since and matches(wait.match, event.record.data)
            }
            if not matching:
                continue
            is_over = await for_each_wait(
                partial(self._receive, event), matching, urgent=self._connection.urgent
            )
            left = {wait: since for wait, since in left.items() if not is_over.get(wait.wait_id)}
            if not left:
                break
        return left
