"""Answers the open waits for events that an event matches.

A new event is matched with the open waits, and a new wait with the events since its run was submitted or was
to start (event_look_back.py). Every gateway does so; the compare-and-set on the wait decides.

An event counts for a wait if it was stored after that time, and if no earlier wait of the run for the same
name and match has received it. Waits that are open at the same time all receive it.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import StreamMessage
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.sent_event_store import SentEventStore, StoredEvent
from pyoco_server.broker.stores.waits.wait_store import StoredWait, WaitStore
from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.json_pointers import matches
from pyoco_server.records.runs.run_models import RunSnapshot, WaitKind
from pyoco_server.records.waits.wait_models import WaitState, run_id_of_wait
from pyoco_server.signals.event_look_back import EventLookBack
from pyoco_server.waits.continuation import Continuations
from pyoco_server.waits.each_wait import for_each_wait
from pyoco_server.waits.index.wait_index import TopicWait, WaitIndex
from pyoco_server.waits.wait_transitions import satisfied

log = logging.getLogger(__name__)


class EventMatching:
    def __init__(
        self,
        connection: Connection,
        index: WaitIndex,
        continuations: Continuations,
        *,
        clock: Callable[[], float],
        on_room: Callable[[], None],
    ) -> None:
        """`on_room` is called when there is room for more look-backs."""
        self._index = index
        self._urgent = connection.urgent
        self._events = SentEventStore(connection)
        self._runs = RunStore(connection)
        self._waits = WaitStore(connection)
        self._continuations = continuations
        self._clock = clock
        self.look_back = EventLookBack(
            connection,
            self._events,
            counting_from=self._counting_from,
            receive=self._receive,
            on_room=on_room,
        )
        self.received = 0

    async def take(self, batch: Iterable[StreamMessage], *, upto: int) -> None:
        """New events: answer the matching waits that are open in the index, up to this revision."""
        for message in batch:
            event = self._events.decoded(message)
            if event is None:
                continue
            record = event.record
            waits = await self._index.open_for_event(record.tenant_id, record.name, upto=upto)
            ready = self.look_back.ready_for(event, waits)
            matching = {wait.wait_id for wait in ready if matches(wait.match, record.data)}
            await for_each_wait(partial(self._receive, event), matching, urgent=self._urgent)

    async def _counting_from(self, wait: TopicWait) -> float | None:
        """None: its run has ended, or cannot be read."""
        run = await self._run(run_id_of_wait(wait.wait_id))
        return None if run is None else events_count_from(run)

    async def _run(self, run_id: str) -> RunSnapshot | None:
        """The run, unless it has ended or cannot be read."""
        try:
            stored = await self._runs.get_from_leader(run_id)
        except UnreadableRecord:
            return None
        return None if stored is None or stored.snapshot.status.terminal else stored.snapshot

    async def _receive(self, event: StoredEvent, wait_id: str) -> bool:
        """Answer the wait with the event, if both still count.

        True: nothing is left to do for this wait, answered or not. False: this event does not count for it, a
        later one may.
        """
        run_id, record = run_id_of_wait(wait_id), event.record
        while True:
            waits = await self._waits.of_run_from_leader(run_id)
            wait = next((each for each in waits if each.record.wait_id == wait_id), None)
            if wait is None or wait.record.state is not WaitState.OPEN:
                return True
            run = await self._run(run_id)
            # A worker can write a wait in the name of another tenant.
            if run is None or run.tenant_id != record.tenant_id:
                return True
            is_earlier = event.stored_at < events_count_from(run)
            if is_earlier or record.event_id in _received_before(wait, waits):
                return False
            outcome = satisfied(
                wait.record, payload=record.data, decision_id=record.event_id, at=self._clock(), by=record.by
            )
            # After a conflict it may still be open.
            if await self._continuations.write_transition(wait, outcome):
                break
        self.received += 1
        said = (wait.record.task, record.name, record.event_id)
        log.info("task %s has received event %s (%s)", *said, extra={"run_id": run_id})
        await self._continuations.continue_run(run_id)
        return True


def events_count_from(run: RunSnapshot) -> float:
    """Its submission, or the time that it was to start at."""
    return max(run.submitted_at or 0.0, run.start_at or 0.0)


def _received_before(wait: StoredWait, waits: Iterable[StoredWait]) -> set[str]:
    """The events that waits for the same had received before this one was opened.

    By the revisions: each wait is written when it opens, and when it is decided.
    """
    return {
        each.record.decision_id
        for each in waits
        if each.record.kind is WaitKind.EVENT
        and each.record.decision_id is not None
        and each.revision < wait.revision
        and (each.record.topic, each.record.match) == (wait.record.topic, wait.record.match)
    }
