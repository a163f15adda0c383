"""Looking for earlier events: new ones are found too, failures are retried, and there is a limit."""

from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyoco_server.aio.urgent_work import UrgentWork
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import MessageInfo
from pyoco_server.broker.stores.waits.sent_event_store import SentEventStore, StoredEvent
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.run_models import WaitKind
from pyoco_server.records.waits.signal_models import EventRecord
from pyoco_server.signals import event_look_back
from pyoco_server.signals.event_look_back import EventLookBack
from pyoco_server.waits.index.wait_index import TopicWait
from tests.support.waiting import eventually


class Events:
    """In place of the store: the events of one topic, whose sequences are their times."""

    def __init__(self) -> None:
        self.stored: list[StoredEvent] = []
        self.failures: list[Exception] = []
        # Called when the newest one has been read.
        self.while_reading: list[Callable[[], None]] = []

    def add(self, sequence: int) -> StoredEvent:
        record = EventRecord(event_id=f"e{sequence}", name="paid", at=0.0, data={"n": sequence})
        self.stored.append(StoredEvent(record, float(sequence), sequence))
        return self.stored[-1]

    async def newest(self, tenant_id: str | None, name: str) -> MessageInfo | None:
        if self.failures:
            raise self.failures.pop(0)
        return MessageInfo(self.stored[-1].sequence, "", 0) if self.stored else None

    async def up_to(self, newest: MessageInfo, *, since: float, after: int) -> AsyncIterator[StoredEvent]:
        for act in self.while_reading:
            act()
        self.while_reading = []
        for event in list(self.stored):
            if after < event.sequence <= newest.sequence and event.stored_at >= since:
                yield event


class Waits:
    def __init__(self) -> None:
        self.received: dict[str, str] = {}
        self.room = 0
        # The ids of those that cannot be looked up.
        self.broken: set[str] = set()

    async def counting_from(self, wait: TopicWait) -> float:
        if wait.wait_id in self.broken:
            raise RuntimeError("a defect")
        return 0.0

    async def receive(self, event: StoredEvent, wait_id: str) -> bool:
        self.received.setdefault(wait_id, event.record.event_id)
        return True

    def on_room(self) -> None:
        self.room += 1


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
async def look_back(
    events: Events, waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[EventLookBack]:
    async def ready() -> None: ...

    monkeypatch.setattr(event_look_back, "_RETRY_SEC", 0.0)
    made = EventLookBack(
        cast(Connection, SimpleNamespace(wait_ready=ready, urgent=UrgentWork())),
        cast(SentEventStore, events),
        counting_from=waits.counting_from,
        receive=waits.receive,
        on_room=waits.on_room,
    )
    yield made
    await made.close()


def a_wait(wait_id: str = "w", topic: str = "paid", **match: Any) -> TopicWait:
    must_have = {f"/{name}": value for name, value in match.items()}
    return TopicWait(1, wait_id, "run", None, WaitKind.EVENT, topic, must_have)


async def complete(look_back: EventLookBack) -> None:
    await eventually(lambda: look_back.is_complete, describe="all waits are looked up")


async def test_an_event_that_passes_a_wait_over_is_found(
    look_back: EventLookBack, events: Events, waits: Waits
) -> None:
    events.add(1)
    wait = a_wait(n=2)

    def a_new_event() -> None:
        assert look_back.ready_for(events.add(2), [wait]) == []

    events.while_reading.append(a_new_event)
    look_back.begin([wait])
    await complete(look_back)
    assert waits.received == {"w": "e2"}
    # Now it may receive new ones.
    assert look_back.ready_for(events.add(3), [wait]) == [wait]


async def test_an_event_that_passes_a_wait_over_and_is_removed_is_not_waited_for(
    look_back: EventLookBack, events: Events, waits: Waits
) -> None:
    events.add(1)
    wait = a_wait(n=2)

    def removed_at_once() -> None:
        look_back.ready_for(events.add(2), [wait])
        events.stored.pop()

    events.while_reading.append(removed_at_once)
    look_back.begin([wait])
    await complete(look_back)
    assert waits.received == {}


async def test_waits_that_come_meanwhile_are_looked_up_next(
    look_back: EventLookBack, events: Events, waits: Waits
) -> None:
    events.add(1)
    later = a_wait("later", n=1)
    events.while_reading.append(lambda: look_back.begin([later]))
    look_back.begin([a_wait("first", n=1)])
    await complete(look_back)
    assert waits.received == {"first": "e1", "later": "e1"}


@pytest.mark.parametrize("failure", [NatsUnavailable("away"), RuntimeError("a defect")])
async def test_a_look_up_that_fails_is_repeated(
    look_back: EventLookBack, events: Events, waits: Waits, failure: Exception
) -> None:
    events.add(1)
    events.failures = [failure, failure]
    look_back.begin([a_wait()])
    await complete(look_back)
    assert waits.received == {"w": "e1"}


async def test_a_wait_that_cannot_be_looked_up_holds_up_no_other(
    look_back: EventLookBack, events: Events, waits: Waits, caplog: pytest.LogCaptureFixture
) -> None:
    event = events.add(1)
    waits.broken = {"bad"}
    bad = a_wait("bad", n=1)
    look_back.begin([a_wait("before", n=1), bad, a_wait("after", n=1)])
    await complete(look_back)
    assert waits.received == {"before": "e1", "after": "e1"}
    # It is given up, and receives new events.
    assert look_back.ready_for(event, [bad]) == [bad]
    assert [record.wait_id for record in caplog.records if "gave up" in record.message] == ["bad"]  # type: ignore[attr-defined]


async def test_room_for_more_topics_is_reported(
    look_back: EventLookBack, waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_look_back, "_MAX_TOPICS", 2)
    look_back.begin([a_wait("a", "a"), a_wait("b", "a")])
    assert not look_back.is_full
    look_back.begin([a_wait("c", "c")])
    assert look_back.is_full
    await complete(look_back)
    assert waits.room == 1
