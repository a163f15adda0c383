"""Messages about a run are hints: refused writes are received like stored ones."""

import asyncio
from typing import Any

import pytest
from msgspec import structs
from nats.aio.subscription import Subscription

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import MessageSink
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.runs.run_hints import RunWatch, RunWatches
from pyoco_server.broker.stores.runs.run_store import RunStore, StoredRun
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunStatus, new_run_id
from pyoco_server.runs.watch import log_following
from tests.support.broker.connections import connected
from tests.support.event_reading import reading_events
from tests.support.running.gateway import RunningGateway
from tests.support.running.printing_runs import begun
from tests.support.waiting import LIMIT_SEC, NEVER_SEC, eventually

EVENTS = {"Accept": "text/event-stream"}


async def test_a_refused_write_does_not_end_a_followed_log(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, store = await begun(gateway.inside.connection), gateway.inside.runs.store
    await run.prints("one")
    heard = asyncio.Event()
    on_snapshot = RunWatch.on_snapshot

    def noted(self: RunWatch, message: Any) -> None:
        on_snapshot(self, message)
        if b"COMPLETED" in message.data:
            heard.set()

    monkeypatch.setattr(RunWatch, "on_snapshot", noted)
    async with reading_events(gateway.http, f"/runs/{run.run_id}/logs", headers=EVENTS) as reading:
        await reading.reads("one")
        stored = await store.get_from_leader(run.run_id)
        assert stored is not None
        running = structs.replace(stored.snapshot, status=RunStatus.RUNNING)
        await store.replace(running, revision=stored.revision)
        # An owner that slept writes the end on the revision that it knows.
        completed = structs.replace(stored.snapshot, status=RunStatus.COMPLETED)
        with pytest.raises(RevisionConflict):
            await store.replace(completed, revision=stored.revision)
        async with asyncio.timeout(LIMIT_SEC):
            await heard.wait()
        await run.prints("two")
        await reading.reads("one", "two")
        await run.ends(RunStatus.FAILED)
        await reading.is_over()
        assert reading.end == {"status": "FAILED"}


async def test_an_early_end_hint_ends_the_log(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a cluster, where subscribers receive a write long before the leader has stored it."""
    # Nothing but the hint makes it look again within the time that this test waits.
    monkeypatch.setattr(log_following, "_POLL_SEC", NEVER_SEC)
    run = await begun(gateway.inside.connection)
    await run.prints("one")
    lagging = 2
    from_leader = RunStore.get_from_leader

    async def late(self: RunStore, run_id: str) -> StoredRun | None:
        nonlocal lagging
        stored = await from_leader(self, run_id)
        if stored is not None and stored.snapshot.status.terminal and lagging:
            lagging -= 1
            stored.snapshot.status = RunStatus.RUNNING
        return stored

    async with reading_events(gateway.http, f"/runs/{run.run_id}/logs", headers=EVENTS) as reading:
        await reading.reads("one")
        monkeypatch.setattr(RunStore, "get_from_leader", late)
        await run.ends(RunStatus.COMPLETED)
        await reading.is_over()
        assert reading.end == {"status": "COMPLETED"}
        assert lagging == 0


async def test_a_watch_started_during_a_connect_subscribes_once(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    both_at_it = asyncio.Event()
    subscribe = Connection.subscribe

    async def slow(self: Connection, subject: str, handler: MessageSink) -> Subscription:
        made.append(subject)
        async with asyncio.timeout(LIMIT_SEC):
            await both_at_it.wait()
        return await subscribe(self, subject, handler)

    async with connected(config) as connection:
        watches, run_id = RunWatches(connection), new_run_id()
        monkeypatch.setattr(Connection, "subscribe", slow)

        async def watch() -> None:
            async with watches.watching(run_id):
                pass

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch())
            await eventually(lambda: made, describe="the watch subscribes")
            hook = tasks.create_task(watches._on_connected())
            # The hook has done all that it can do before the watch goes on.
            await asyncio.sleep(0)
            both_at_it.set()
            await hook
        assert len(made) == len(set(made)) == 2
        assert not [sub for sub in connection.client._subs.values() if run_id in sub.subject]


async def test_a_watch_ended_during_a_connect_leaves_no_subscription(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_go_on = asyncio.Event(), asyncio.Event()
    subscribe = Connection.subscribe

    async def slow(self: Connection, subject: str, handler: MessageSink) -> Subscription:
        began.set()
        async with asyncio.timeout(LIMIT_SEC):
            await may_go_on.wait()
        return await subscribe(self, subject, handler)

    async with connected(config) as connection:
        watches, run_id = RunWatches(connection), new_run_id()
        async with asyncio.TaskGroup() as tasks, watches.watching(run_id):
            # As after a reconnect.
            [subscriptions] = watches._subscriptions.values()
            for subscription in subscriptions:
                await subscription.end()
            monkeypatch.setattr(Connection, "subscribe", slow)
            tasks.create_task(watches._on_connected())
            await began.wait()
            asyncio.get_running_loop().call_soon(may_go_on.set)
        assert not [sub for sub in connection.client._subs.values() if run_id in sub.subject]
