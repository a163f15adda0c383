"""Truncated streams: after a power failure, or a restored backup.

The stream is the same, and its sequences are used again for other messages.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import bucket_feed, feed_history, jetstream_api
from pyoco_server.broker.jetstream.bucket_feed import BucketFeed
from pyoco_server.broker.jetstream.object_store import ObjectStore
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, read_batch
from pyoco_server.broker.stores.api_keys import ApiKeyMirror, ApiKeyRecord, ApiKeys
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.trusted_records import present_records, trust_records
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.broker.streams_and_buckets import ensure_api_keys
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.run_models import RunSnapshot
from pyoco_server.runs.index.run_feed_reader import RunFeedReader
from pyoco_server.wheels.wheel_registry import WheelRegistry
from tests.integration.lists.test_run_list import ids
from tests.support.broker.backups import Backup
from tests.support.broker.connections import connected
from tests.support.broker.nats_server import NatsServer
from tests.support.broker.stored_runs import ended, snapshot, write
from tests.support.broker.stored_waits import decided, waiting_run
from tests.support.event_reading import reading_events
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.printing_runs import PrintingRun, begun
from tests.support.waiting import LIMIT_SEC, NEVER_SEC, eventually


@pytest.fixture
def config(config: NatsBackendConfig, own_nats: NatsServer) -> NatsBackendConfig:
    return replace(config, nats_url=own_nats.url, sweep_interval_sec=60.0)


@pytest.fixture
def rebuilds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each time that an index of runs was begun."""
    begun: list[str] = []
    begin = RunFeedReader.begin

    async def noted(self: RunFeedReader, created: str) -> None:
        begun.append(created)
        await begin(self, created)

    monkeypatch.setattr(RunFeedReader, "begin", noted)
    return begun


@asynccontextmanager
async def store_of(config: NatsBackendConfig) -> AsyncIterator[RunStore]:
    """The runs bucket, without a gateway."""
    async with connected(config) as connection:
        yield RunStore(connection)


async def written(config: NatsBackendConfig, *runs: RunSnapshot) -> list[str]:
    async with connected(config) as connection:
        written = await write(RunStore(connection), *runs)
        # Or a gateway would sign them, which is a write.
        await trust_records(connection, await present_records(connection))
        return written


@asynccontextmanager
async def reconnecting(connection: Connection) -> AsyncIterator[None]:
    """The connection is lost inside the block, and ready again after it."""
    before = connection.times_connected
    yield
    await eventually(
        lambda: connection.times_connected > before and connection.ready,
        describe="connected again",
    )


def open_runs(gateway: RunningGateway) -> set[str]:
    return set(gateway.inside.sweeper._runs._runs)


async def test_an_index_from_before_a_restored_backup_lists_what_the_bucket_has(
    config: NatsBackendConfig, backup: Backup
) -> None:
    before = await written(config, ended(at=1.0), ended(at=2.0))
    backup.take()
    async with running_gateway(config) as gateway:
        await write(gateway.inside.runs.store, snapshot(), *(ended(at=10.0 + number) for number in range(3)))
        assert len(await ids(gateway)) == 6
    backup.restore()
    after = await written(config, *(snapshot() for _ in range(5)))
    async with running_gateway(config) as gateway:
        assert set(await ids(gateway)) == {*before, *after}
        assert open_runs(gateway) == set(after)


async def test_a_truncation_is_detected_when_all_newer_messages_were_replaced(
    config: NatsBackendConfig, backup: Backup
) -> None:
    rolled_back = snapshot()
    await written(config, ended(at=1.0), rolled_back)
    backup.take()
    async with running_gateway(config) as gateway:
        # One run that is lost, and one that is ended and then open again.
        [lost] = await write(gateway.inside.runs.store, ended(at=10.0))
        await gateway.inside.runs.store.replace(ended(run_id=rolled_back.run_id, at=11.0), revision=2)
        assert lost in await ids(gateway)
        assert rolled_back.run_id not in open_runs(gateway)
    backup.restore()
    async with store_of(config) as store:
        # Sequences 3 and 4 of the new history are replaced by 5 and 6: nothing is stored there any more.
        new = [snapshot(), snapshot()]
        await write(store, *new)
        for number, each in enumerate(new):
            await store.replace(each, revision=3 + number)
    async with running_gateway(config) as gateway:
        listed = await ids(gateway)
        assert lost not in listed
        assert len(listed) == 4
        assert open_runs(gateway) == {rolled_back.run_id, *(each.run_id for each in new)}


async def test_a_truncation_is_detected_when_the_same_run_has_the_same_revision(
    config: NatsBackendConfig, backup: Backup
) -> None:
    run, other = snapshot(), snapshot()
    await written(config, run, other)
    backup.take()
    async with running_gateway(config) as gateway:
        await gateway.inside.runs.store.replace(ended(run_id=run.run_id, at=5.0), revision=1)
        await gateway.inside.runs.store.replace(other, revision=2)
        assert len(await ids(gateway)) == 2
        assert run.run_id not in open_runs(gateway)
    backup.restore()
    async with store_of(config) as store:
        await store.replace(run, revision=1)
        await store.replace(other, revision=2)
        await store.replace(other, revision=4)
    async with running_gateway(config) as gateway:
        await ids(gateway)
        assert open_runs(gateway) == {run.run_id, other.run_id}


async def test_an_index_is_kept_when_its_newest_runs_were_only_updated(
    config: NatsBackendConfig, own_nats: NatsServer, rebuilds: list[str]
) -> None:
    old, running, newest, deleted = ended(at=1.0), snapshot(), snapshot(), ended(at=2.0)
    async with running_gateway(config) as gateway:
        await write(gateway.inside.runs.store, old, deleted, running, newest)
        await gateway.inside.runs.store.delete(deleted.run_id, revision=2)
        assert len(await ids(gateway)) == 3
    async with store_of(config) as store:
        await store.replace(running, revision=3)
        await store.replace(newest, revision=4)
        await store.replace(newest, revision=7)
        await store.delete(running.run_id, revision=6)
    own_nats.restart()
    assert len(rebuilds) == 1
    async with running_gateway(config) as gateway:
        assert set(await ids(gateway)) == {old.run_id, newest.run_id}
        async with reconnecting(gateway.inside.connection):
            own_nats.restart()
        assert set(await ids(gateway)) == {old.run_id, newest.run_id}
    assert len(rebuilds) == 1


async def test_a_gateway_that_runs_during_the_truncation_lists_and_watches_what_is_stored(
    config: NatsBackendConfig, backup: Backup
) -> None:
    kept, watched = ended(at=1.0), snapshot()
    await written(config, kept, watched)
    backup.take()
    async with running_gateway(config) as gateway:
        await gateway.inside.runs.store.replace(watched, revision=2)
        [lost] = await write(gateway.inside.runs.store, snapshot())
        assert lost in await ids(gateway)
        async with (
            reading_events(gateway.http, "/runs/watch") as listing,
            reading_events(gateway.http, f"/runs/{watched.run_id}/watch") as watching,
        ):
            await eventually(lambda: listing.events and watching.events, describe="it watches")
            had = watching.events[-1].id
            async with reconnecting(gateway.inside.connection):
                backup.restore()
            assert set(await ids(gateway)) == {kept.run_id, watched.run_id}
            assert open_runs(gateway) == {watched.run_id}
            await eventually(lambda: listing.over and watching.over, describe="both end")
            assert listing.events[-1].name == "reset"
        # The snapshot that the client had was lost: the older one is news.
        headers = {"Last-Event-ID": str(had)}
        async with reading_events(gateway.http, f"/runs/{watched.run_id}/watch", headers=headers) as again:
            await eventually(lambda: again.events, describe="the run is sent")
            assert (again.events[0].name, again.events[0].id) == ("snapshot", "2")


async def test_a_watch_from_a_lost_position_must_list_again(
    config: NatsBackendConfig, backup: Backup
) -> None:
    await written(config, ended(at=1.0))
    backup.take()
    async with running_gateway(config) as gateway:
        await write(gateway.inside.runs.store, ended(at=2.0))
        answer = await gateway.http.get("/runs")
        position = answer.headers["X-Pyoco-Revision"]
    backup.restore()
    # A gateway that has read nothing else than the new history.
    async with running_gateway(replace(config, index_dir=config.index_dir + "-new")) as gateway:
        await gateway.inside.listing.lists.caught_up()
        async with reading_events(gateway.http, "/runs/watch", params={"after": position}) as reading:
            await eventually(lambda: reading.over, describe="the watch ends")
            assert [event.name for event in reading.events] == ["reset"]


async def test_a_truncation_between_two_batches_leaves_no_lost_row(
    config: NatsBackendConfig, backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_gateway(config) as gateway:
        before = await write(gateway.inside.runs.store, ended(at=1.0), ended(at=2.0))
        assert len(await ids(gateway)) == 2
    backup.take()
    await written(config, *(ended(at=10.0 + number) for number in range(6)))
    monkeypatch.setattr(bucket_feed, "_BATCH", 3)
    after_loss: list[str] = []
    read = BucketFeed._read

    async def restored_before_the_second_batch(self: BucketFeed, *, after: int) -> list[StreamMessage]:
        if after == 5 and not after_loss:
            async with reconnecting(self._connection):
                await asyncio.to_thread(backup.restore)
            async with store_of(config) as store:
                after_loss.extend(await write(store, *(ended(at=50.0 + number) for number in range(8))))
        return await read(self, after=after)

    monkeypatch.setattr(BucketFeed, "_read", restored_before_the_second_batch)
    async with running_gateway(config) as gateway:
        await eventually(lambda: len(after_loss) == 8, describe="the backup is restored")
        assert set(await ids(gateway)) == {*before, *after_loss}


async def test_a_barrier_for_a_lost_write_is_passed(
    config: NatsBackendConfig, backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_gateway(config) as gateway:
        before = await write(gateway.inside.runs.store, ended(at=1.0), ended(at=2.0))
        assert len(await ids(gateway)) == 2
    backup.take()
    await written(config, ended(at=10.0))
    # So the first read is for a barrier at the third write.
    monkeypatch.setattr(bucket_feed, "_POLL_SEC", NEVER_SEC)
    monkeypatch.setattr(bucket_feed, "_CATCH_UP_SEC", NEVER_SEC)
    restored = asyncio.Event()
    read = BucketFeed._read

    async def restored_before_the_first_batch(self: BucketFeed, *, after: int) -> list[StreamMessage]:
        if after == 2 and not restored.is_set():
            restored.set()
            async with reconnecting(self._connection):
                await asyncio.to_thread(backup.restore)
        return await read(self, after=after)

    monkeypatch.setattr(BucketFeed, "_read", restored_before_the_first_batch)
    async with running_gateway(config) as gateway:
        async with asyncio.timeout(LIMIT_SEC):
            await gateway.inside.listing.lists.caught_up()
            await restored.wait()
        await eventually(lambda: gateway.inside.sweeper.rounds, describe="the sweep was answered")
        assert set(await ids(gateway)) == set(before)


async def remove_without_marker(connection: Connection, *run_ids: str) -> None:
    """What retention leaves, when it has removed the markers as well."""
    for run_id in run_ids:
        await jetstream_api.purge(connection, "KV_pyoco_runs", f"$KV.pyoco_runs.{run_id}")


@pytest.mark.parametrize("kept", [0, 1])
async def test_an_index_is_kept_when_its_newest_runs_were_removed(
    config: NatsBackendConfig,
    kept: int,
    rebuilds: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_gateway(config) as gateway:
        known = await write(gateway.inside.runs.store, *(ended(at=10.0 + number) for number in range(4)))
        assert len(await ids(gateway)) == 4
    rebuilds.clear()
    async with connected(config) as connection:
        await remove_without_marker(connection, *known[kept:])
        [new] = await write(RunStore(connection), ended(at=50.0))
    with caplog.at_level(logging.WARNING, logger="pyoco_server.broker"):
        async with running_gateway(config) as gateway:

            async def lists_what_is_stored() -> bool:
                return set(await ids(gateway)) == {*known[:kept], new}

            await eventually(lists_what_is_stored, describe="the removed runs are not listed any more")
    assert rebuilds == []
    assert not [record for record in caplog.records if "lost" in record.getMessage()]


async def test_an_index_is_read_again_when_most_of_its_runs_were_removed(
    config: NatsBackendConfig,
    rebuilds: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """To ask for each key would take longer than to read all of them."""
    monkeypatch.setattr(feed_history, "_MIN_COMPARED", 2)
    monkeypatch.setattr(feed_history, "_CONCURRENT_REQUESTS", 2)
    async with running_gateway(config) as gateway:
        known = await write(gateway.inside.runs.store, *(ended(at=10.0 + number) for number in range(6)))
        assert len(await ids(gateway)) == 6
    rebuilds.clear()
    async with connected(config) as connection:
        await remove_without_marker(connection, *known[1:])
        [new] = await write(RunStore(connection), ended(at=50.0))
    async with running_gateway(config) as gateway:
        assert set(await ids(gateway)) == {known[0], new}
    assert len(rebuilds) == 1
    assert not [record for record in caplog.records if "lost" in record.getMessage()]


def key(key_id: str, revoked_at: float | None = None) -> ApiKeyRecord:
    return ApiKeyRecord(
        key_id=key_id, tenant_id="t", secrets=(), peppered=False, created_at=1.0, revoked_at=revoked_at
    )


async def test_a_revocation_at_a_reused_revision_is_not_missed(
    config: NatsBackendConfig, backup: Backup
) -> None:
    async with connected(config) as connection:
        await ensure_api_keys(connection)
        keys, mirror = ApiKeys(connection), ApiKeyMirror(connection)
        await keys.create(key("first"))
        await keys.create(key("second"))
        backup.take()
        await keys.note_use("first", 5.0)
        await keys.note_use("second", 5.0)
        assert await mirror.poll()
        async with reconnecting(connection):
            backup.restore()
        # The revocation gets the revision of a write that was lost, and the bucket grows to as many entries.
        await keys.change("first", lambda _: key("first", revoked_at=9.0))
        await keys.note_use("first", 6.0)
        await keys.note_use("second", 6.0)
        assert await mirror.poll()
        assert mirror.entries.records["first"].revoked_at == 9.0


async def test_a_failed_read_of_the_keys_is_repeated_completely(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(config) as connection:
        await ensure_api_keys(connection)
        keys, mirror = ApiKeys(connection), ApiKeyMirror(connection)
        await keys.create(key("first"))
        await keys.note_use("first", 5.0)
        assert await mirror.poll()
        await keys.change("first", lambda _: key("first", revoked_at=9.0))
        await keys.note_use("first", 6.0)

        async def one_and_then_nothing(*args: Any, after: int, **options: Any) -> list[StreamMessage]:
            if after >= 3:
                raise connection.unavailable("a test")
            return (await read_batch(*args, after=after, **options))[:1]

        with monkeypatch.context() as patched:
            patched.setattr("pyoco_server.broker.stores.api_keys.read_batch", one_and_then_nothing)
            with pytest.raises(NatsUnavailable):
                await mirror.poll()
        assert await mirror.poll(), "the caller does not know of the change yet"
        assert mirror.entries.records["first"].revoked_at == 9.0


async def test_a_followed_log_continues_by_time_when_its_sequences_are_used_again(
    config: NatsBackendConfig, backup: Backup
) -> None:
    async with connected(config) as connection:
        run, other = await begun(connection), await begun(connection)
        await run.prints("kept")
    backup.take()
    events = {"Accept": "text/event-stream"}
    async with running_gateway(config) as gateway:
        run = PrintingRun(gateway.inside.connection, run.run_id)
        other = PrintingRun(gateway.inside.connection, other.run_id)
        await run.prints("lost")
        await run.prints("lost as well")
        path = f"/runs/{run.run_id}/logs"
        async with reading_events(gateway.http, path, headers=events) as reading:
            await reading.reads("kept", "lost", "lost as well")
            last_id = reading.events[-1].id
            async with reconnecting(gateway.inside.connection):
                backup.restore()
            await run.prints("new")
            await other.prints("of another run")
            await run.prints("newer")
            await reading.reads("kept", "lost", "lost as well", "new", "newer")
        # A client whose line was lost gets the log from its beginning.
        headers = {**events, "Last-Event-ID": str(last_id)}
        async with reading_events(gateway.http, path, headers=headers) as again:
            await again.reads("kept", "new", "newer")
        await run.ends()


async def test_a_lost_answer_reopens_its_wait(config: NatsBackendConfig, backup: Backup) -> None:
    run, [wait] = waiting_run()
    async with connected(config) as connection:
        await WaitStore(connection).create(wait)
        await RunStore(connection).create(run)
    backup.take()
    async with running_gateway(config) as gateway:
        await gateway.inside.waits.store.replace(decided(wait), revision=1)
        assert (await gateway.inside.waits.lists.all_open(None))[0] == []
    backup.restore()
    # Another wait is stored at the revision of the answer, and then decided.
    other_run, [other] = waiting_run()
    async with connected(config) as connection:
        await RunStore(connection).create(other_run)
        await WaitStore(connection).create(other)
        await WaitStore(connection).replace(decided(other), revision=2)
    async with running_gateway(config) as gateway:
        [item] = (await gateway.inside.waits.lists.all_open(None))[0]
        assert wait.wait_id.encode() in bytes(item)


async def test_a_changed_wheel_registry_with_the_same_newest_sequence_is_noticed(
    config: NatsBackendConfig, backup: Backup
) -> None:
    async def content() -> AsyncIterator[bytes]:
        yield b"a wheel"

    async with connected(config) as connection:
        store = ObjectStore(connection, config.wheel_object_store_bucket)
        registry = WheelRegistry(connection)
        chunks = await store.store_chunks(content())
        backup.take()
        await store.publish("lost-1.0-py3-none-any.whl", chunks, {}, revision=0)
        before = await registry.newest_record()
        async with reconnecting(connection):
            backup.restore()
        await store.publish("other-1.0-py3-none-any.whl", chunks, {}, revision=0)
        after = await registry.newest_record()
        assert before is not None
        assert after is not None
        assert before.sequence == after.sequence
        assert before != after
