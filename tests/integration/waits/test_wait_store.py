"""Stored waits and their events: compare-and-set, deduplication, retention."""

import asyncio
from dataclasses import replace

import pytest
from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict, publish_acked
from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.wait_event_log import WaitEventLog
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.waits.wait_models import WaitEventKind, WaitState, encode
from pyoco_server.runs.open_runs import OpenRuns
from pyoco_server.runs.sweep.retention import Retention
from pyoco_server.waits.wait_transitions import event_of
from tests.support.broker.connections import connected
from tests.support.broker.stored_runs import ended, snapshot
from tests.support.running.waiting_runs import wait_of, waiting_run

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def connection(shared_connection: Connection) -> Connection:
    return shared_connection


async def test_a_wait_is_made_once_and_decided_once(connection: Connection) -> None:
    store = WaitStore(connection)
    wait = wait_of(snapshot(), schema={"type": "string"}, default=None)
    assert await store.get(wait.wait_id) is None
    assert await store.get_from_leader(wait.wait_id) is None
    revision = await store.create(wait)
    with pytest.raises(RevisionConflict):
        await store.create(structs.replace(wait, deadline_at=wait.deadline_at + 60))
    for found in (await store.get(wait.wait_id), await store.get_from_leader(wait.wait_id)):
        assert found is not None
        assert (found.record, found.revision) == (wait, revision)

    answers = [structs.replace(wait, state=WaitState.ANSWERED, payload=number) for number in range(8)]
    outcomes = await asyncio.gather(
        *(store.replace(answer, revision) for answer in answers), return_exceptions=True
    )
    [winner] = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, int)]
    assert sum(isinstance(outcome, RevisionConflict) for outcome in outcomes) == 7
    kept = await store.get_from_leader(wait.wait_id)
    assert kept is not None
    assert kept.record.payload == winner


async def test_the_waits_of_a_run_are_read_together_however_many_they_are(connection: Connection) -> None:
    store = WaitStore(connection)
    run, other = snapshot(), snapshot()
    asked = [wait_of(run, name=f"q{number}") for number in range(600)]
    await store.create(wait_of(other))
    await asyncio.gather(*(store.create(wait) for wait in asked))
    found = await store.of_run_from_leader(run.run_id)
    assert sorted(wait.record.wait_id for wait in found) == sorted(wait.wait_id for wait in asked)
    assert await store.of_run_from_leader(snapshot().run_id) == []


async def test_a_malformed_wait_does_not_hide_others(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    store = WaitStore(connection)
    wait = wait_of(snapshot())
    await store.create(wait)
    await publish_acked(connection, f"$KV.pyoco_waits.{wait.run_id}.{'0' * 16}", b"{nonsense")
    assert [found.record for found in await store.of_run_from_leader(wait.run_id)] == [wait]
    malformed = f"{wait.run_id}.{'0' * 16}"
    assert await store.find_from_leader(malformed) is None
    for read in (store.get, store.get_from_leader):
        with pytest.raises(UnreadableRecord, match=malformed):
            await read(malformed)
    assert caplog.text.count("A stored record cannot be read: wait ") == 1


async def test_an_event_that_is_sent_again_counts_once(connection: Connection) -> None:
    events = WaitEventLog(connection)
    wait = wait_of(snapshot())
    opened, closed = event_of(wait, WaitEventKind.OPENED), event_of(wait, WaitEventKind.CANCELLED)
    for event in (opened, opened, closed):
        await events.publish(event)
    subjects = f"pyoco.wait_events.{wait.run_id}.>"
    stored = (await stream_state(connection, "PYOCO_WAIT_EVENTS", subjects=subjects)).subjects
    assert sum(stored.values()) == 2
    # Beyond the server's memory of ids it is stored again.
    await publish_acked(connection, f"pyoco.wait_events.{wait.wait_id}.opened", encode(opened))
    assert await events.of_wait(wait.wait_id) == [opened, closed]


async def test_attempts_that_are_rejected_hide_neither_the_decision_nor_other_waits(
    connection: Connection,
) -> None:
    events = WaitEventLog(connection)
    run = snapshot()
    flooded, quiet = wait_of(run), wait_of(run, name="other")
    opened = event_of(flooded, WaitEventKind.OPENED)
    await events.publish(opened)
    refused = [
        structs.replace(opened, kind=WaitEventKind.REFUSED, event_id=f"{flooded.wait_id}.refused.{number}")
        for number in range(1200)
    ]
    await asyncio.gather(*map(events.publish, refused))
    decided = event_of(flooded, WaitEventKind.ANSWERED)
    asked = event_of(quiet, WaitEventKind.OPENED)
    for event in (decided, asked):
        await events.publish(event)

    found = await events.of_wait(flooded.wait_id)
    assert (found[0], found[-1]) == (opened, decided)
    # Of the others the newest are kept.
    assert found[1:-1] == refused[-100:]
    assert await events.of_wait(quiet.wait_id) == [asked]


async def test_a_malformed_event_does_not_hide_others(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    events = WaitEventLog(connection)
    opened = event_of(wait_of(snapshot()), WaitEventKind.OPENED)
    await publish_acked(connection, f"pyoco.wait_events.{opened.wait_id}.opened", b"[]")
    await events.publish(opened)
    assert await events.of_wait(opened.wait_id) == [opened]
    assert "A stored record cannot be read: wait_event " in caplog.text


async def test_waits_and_events_are_removed_with_their_run(config: NatsBackendConfig) -> None:
    async with connected(replace(config, run_retention_sec=0.000001)) as connection:
        over = await waiting_run(connection, {}, {})
        await over.becomes(status=RunStatus.CANCELLED)
        kept = await waiting_run(connection)
        plain = ended()
        await RunStore(connection).create(plain)
        runs = OpenRuns()
        retention = Retention(connection, runs, marker_sec=-1.0)
        assert sum([count async for count in retention.remove_ended()]) == 2

        store, events = WaitStore(connection), WaitEventLog(connection)
        assert await store.of_run_from_leader(over.run_id) == []
        assert await over.events() == []
        # Delete markers stay until that of the run is removed.
        assert (await stream_state(connection, "KV_pyoco_waits")).messages == 3
        # A worker that was paused for long says a last word.
        await events.publish(event_of(over.waits[0], WaitEventKind.OPENED))
        for run_id in (over.run_id, plain.run_id):
            runs.remember_marker(run_id)
        async for _ in retention.remove_markers():
            pass
        assert (await stream_state(connection, "KV_pyoco_waits")).messages == 1
        assert await over.events() == []
        assert [wait.record for wait in await store.of_run_from_leader(kept.run_id)] == kept.waits
        assert await kept.kinds() == ["opened"]
