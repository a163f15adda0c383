"""The outbox of a wait: emptied after its events are published, and not visible to clients."""

import time
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.waits.wait_event_log import WaitEventLog
from pyoco_server.broker.stores.waits.wait_store import StoredWait, WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import new_run_id
from pyoco_server.records.waits.wait_models import (
    Actor,
    WaitEvent,
    WaitEventKind,
    WaitRecord,
    WaitState,
    decode_outbox,
    decode_wait,
    encode_wait,
)
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.waits.human.answers.answering import Answer, AnswerHandler
from pyoco_server.waits.human.inbox_hub import InboxChange
from pyoco_server.waits.index.wait_items import item_of
from pyoco_server.waits.wait_event_outbox import flush_outbox
from pyoco_server.waits.wait_transitions import event_of
from tests.integration.waits.test_wait_expiry import maintaining
from tests.support.broker.stored_waits import a_wait
from tests.support.clocks import Clock
from tests.support.running.gateway import RunningGateway
from tests.support.running.waiting_runs import WaitingRun, waiting_run
from tests.support.waiting import eventually

ANN = Actor(name="ann")
ONE = Answer(payload=1)


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(config, sweep_interval_sec=0.1)


def opened(wait: WaitRecord) -> WaitEvent:
    return event_of(wait, WaitEventKind.OPENED)


async def stored_with_outbox(run: WaitingRun) -> StoredWait:
    """The run's wait, as its worker leaves it."""
    before = await run.stored()
    store = WaitStore(run.connection)
    await store.replace(before.record, before.revision, outbox=[opened(before.record)])
    stored = await run.stored()
    assert stored.outbox
    return stored


async def outbox_of(run: WaitingRun) -> list[str]:
    return [event.kind.value for event in (await run.stored()).outbox]


# The record


def test_the_earlier_version_reads_a_record_with_or_without_an_outbox() -> None:
    """Its decoder is that of the record alone."""
    wait = a_wait(new_run_id(), schema={"type": "object"}, proposal={"a": 1})
    without, data = encode_wait(wait), encode_wait(wait, [opened(wait)])
    assert b"outbox" not in without
    assert decode_wait(without) == decode_wait(data) == wait
    assert type(decode_wait(data)) is WaitRecord
    assert (decode_outbox(without), decode_outbox(data)) == ([], [opened(wait)])


# Emptying it


async def test_an_outbox_is_emptied_and_what_is_published_is_not_published_again(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also long after the window in which the server knows a duplicate by its id."""
    run = await waiting_run(connection)
    stored = await stored_with_outbox(run)
    published: list[WaitEvent] = []

    async def publish(events: WaitEventLog, event: WaitEvent) -> None:
        published.append(event)

    monkeypatch.setattr(WaitEventLog, "publish", publish)
    async with maintaining(connection):

        async def emptied() -> bool:
            return not await outbox_of(run)

        await eventually(emptied, describe="the outbox is empty")
    assert published == []
    assert await run.wait() == stored.record


async def test_an_outbox_is_flushed_after_the_second_scan(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has stored it is about to publish it."""
    run = await waiting_run(connection)
    await stored_with_outbox(run)
    async with maintaining(connection) as maintained:
        looks: list[list[str]] = []
        with_outbox = maintained.waits.with_outbox

        async def noted(limit: int) -> list[tuple[str, int]]:
            looks.append(await outbox_of(run))
            return await with_outbox(limit)

        monkeypatch.setattr(maintained.waits, "with_outbox", noted)
        await maintained.scans(4)
    assert looks[:3] == [["opened"], ["opened"], []]


async def test_an_answer_while_the_outbox_is_emptied_counts_and_is_reported(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await waiting_run(connection)
    await stored_with_outbox(run)
    has = WaitEventLog.has
    answered = False

    async def answered_meanwhile(events: WaitEventLog, event: WaitEvent) -> bool:
        nonlocal answered
        if not answered:
            answered = True
            await AnswerHandler(connection).respond(run.wait_id, ONE, ANYBODY, ANN)
        return await has(events, event)

    monkeypatch.setattr(WaitEventLog, "has", answered_meanwhile)
    await flush_outbox(WaitStore(connection), WaitEventLog(connection), run.wait_id)
    wait = await run.wait()
    assert (wait.state, wait.payload) == (WaitState.ANSWERED, 1)
    assert (await outbox_of(run), await run.kinds()) == ([], ["opened", "answered"])


class EmptiedMeanwhile:
    """Before the first decision about a wait is written, a gateway empties its outbox."""

    def __init__(self, run: WaitingRun, monkeypatch: pytest.MonkeyPatch) -> None:
        replace_wait = WaitStore.replace
        self.done = False

        async def late(store: WaitStore, record: WaitRecord, revision: int, **outbox: Any) -> int:
            if record.state is not WaitState.OPEN and not self.done:
                self.done = True
                await flush_outbox(store, WaitEventLog(run.connection), run.wait_id)
            return await replace_wait(store, record, revision, **outbox)

        monkeypatch.setattr(WaitStore, "replace", late)


async def test_an_outbox_that_is_emptied_while_someone_answers_does_not_refuse_the_answer(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await waiting_run(connection)
    await stored_with_outbox(run)
    emptied = EmptiedMeanwhile(run, monkeypatch)
    receipt = await AnswerHandler(connection).respond(run.wait_id, ONE, ANYBODY, ANN)
    assert (emptied.done, receipt.repeated) == (True, False)
    assert (await run.wait()).state is WaitState.ANSWERED


async def test_an_outbox_that_is_emptied_at_the_deadline_does_not_stop_the_expiry(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await waiting_run(connection)
    stored = await stored_with_outbox(run)
    emptied = EmptiedMeanwhile(run, monkeypatch)
    async with maintaining(connection, clock=Clock(stored.record.deadline_at)) as maintained:
        await maintained.scans()
    assert emptied.done
    assert (await run.wait()).state is WaitState.EXPIRED


async def test_waits_are_removed_although_an_outbox_is_emptied_meanwhile(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await waiting_run(connection)
    await stored_with_outbox(run)
    store = WaitStore(connection)
    delete = store._bucket.delete
    emptied = False

    async def late(key: str, *, revision: int) -> None:
        nonlocal emptied
        if not emptied:
            emptied = True
            await flush_outbox(WaitStore(connection), WaitEventLog(connection), run.wait_id)
        await delete(key, revision=revision)

    monkeypatch.setattr(store._bucket, "delete", late)
    assert await store.remove_run(run.run_id) == 1
    assert emptied
    assert await store.of_run_from_leader(run.run_id) == []


def test_an_emptied_outbox_is_no_inbox_change() -> None:
    item = item_of(a_wait(new_run_id()))
    again = msgspec.structs.replace(item)
    assert not InboxChange(2, again, item).is_visible
    assert InboxChange(2, msgspec.structs.replace(item, decided_at=time.time()), item).is_visible


async def test_an_outbox_is_known_to_the_index_and_not_shown(gateway: RunningGateway) -> None:
    run = await waiting_run(gateway.inside.connection)
    await gateway.inside.waits.maintenance.close()
    stored = await stored_with_outbox(run)
    index = gateway.inside.waits.index

    async def known() -> bool:
        return index.ready and await index.with_outbox(10) == [(run.wait_id, stored.revision)]

    await eventually(known, describe="the wait has an outbox")
    shown = (await gateway.http.get(f"/waits/{run.wait_id}")).json()
    assert "outbox" not in shown
    assert [event["kind"] for event in shown["events"]] == ["opened"]
    await flush_outbox(WaitStore(run.connection), WaitEventLog(run.connection), run.wait_id)

    async def emptied() -> bool:
        return await index.with_outbox(10) == []

    await eventually(emptied, describe="it has none any more")
