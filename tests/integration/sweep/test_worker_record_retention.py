"""The sweep removes records of workers that disconnected long ago, unless an operator set something."""

import time
from dataclasses import replace

import pytest

from pyoco_server.broker.jetstream import stream_reads
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, read_batch
from pyoco_server.broker.stores.workers import worker_registry
from pyoco_server.broker.stores.workers.worker_registry import OwnRecord, WorkerRegistry
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.workers.worker_models import WorkerState
from pyoco_server.runs.sweep import retention
from pyoco_server.runs.sweep.retention import WorkerRecordRetention
from tests.support.broker.connections import connected
from tests.support.broker.worker_records import a_record, put_record
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.waiting import eventually


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(config, worker_record_retention_sec=0.3, worker_disconnect_timeout_sec=0.25)


async def known(registry: WorkerRegistry) -> list[str]:
    return sorted(record.worker_id for record in await registry.all())


async def test_the_sweep_removes_expired_worker_records(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_WORKER_CHECK_SEC", 0.0)
    config = replace(config, worker_heartbeat_interval_sec=0.1, sweep_interval_sec=0.2)
    async with running_gateway(config) as gateway:
        now = time.time()
        for record in (
            a_record("gone", seen_at=now),
            a_record("stopped", seen_at=now, state=WorkerState.STOPPED_GRACEFUL),
            a_record("hidden", seen_at=now, hidden=True),
            a_record("paused", seen_at=now, paused=True),
            # Its clock is an hour ahead, and it is heard of all the same.
            a_record("alive", seen_at=now + 3600),
        ):
            await put_record(gateway.inside.connection, record)

        # Counted a moment after they are removed, and by then no other may be.
        actions = gateway.inside.sweeper.actions
        await eventually(lambda: actions["worker_removed"] >= 2, describe="two were removed")
        assert actions["worker_removed"] == 2
        assert await known(gateway.inside.workers) == ["alive", "hidden", "paused"]


@pytest.mark.parametrize("keep_sec", [0.0, 604800.0])
async def test_records_are_kept_for_the_configured_time(config: NatsBackendConfig, keep_sec: float) -> None:
    async with connected(replace(config, worker_record_retention_sec=keep_sec)) as connection:
        # By its own clock it is gone for months; but it has just written.
        await put_record(connection, a_record("old", seen_at=1.0))
        assert await WorkerRecordRetention(connection).remove() == 0
        assert await known(WorkerRegistry(connection)) == ["old"]


async def test_a_worker_that_reconnects_during_removal_keeps_its_record(
    config: NatsBackendConfig,
) -> None:
    async with connected(config) as connection:
        registry = WorkerRegistry(connection)
        own = OwnRecord(connection, a_record("back", seen_at=1.0))
        await own.save()
        [seen] = await registry.stored()
        await own.save()
        await registry.remove(seen)
        assert await known(registry) == ["back"]
        # And one whose record was removed writes it again.
        [seen] = await registry.stored()
        await registry.remove(seen)
        assert await known(registry) == []
        await own.save()
        assert await known(registry) == ["back"]


async def test_a_list_of_workers_waits_once_for_a_lost_write(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after NATS lost its data, or the record was removed."""
    registry = gateway.inside.workers
    # Paused, so that the sweep of this gateway does not remove it.
    await put_record(gateway.inside.connection, a_record("one", seen_at=time.time(), paused=True))
    registry._written = 1000
    reads = []
    read = registry._messages

    async def counted() -> list[StreamMessage]:
        reads.append(1)
        return await read()

    monkeypatch.setattr(registry, "_messages", counted)
    for expected in (worker_registry._REPLICA_READS, 1):
        reads.clear()
        assert await known(registry) == ["one"]
        assert len(reads) == expected


async def test_a_worker_that_writes_between_two_reads_is_listed_once(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(config) as connection:
        for number in range(3):
            await put_record(connection, a_record(f"w{number}", seen_at=1.0))

        async def small(*arguments: object, after: int) -> list[StreamMessage]:
            if after == 2:
                await put_record(connection, a_record("w0", seen_at=2.0))
            return await read_batch(*arguments, after=after, limit=2)  # type: ignore[arg-type]

        monkeypatch.setattr(stream_reads, "read_batch", small)
        found = await WorkerRegistry(connection).all()
        assert sorted((each.worker_id, each.last_seen_at) for each in found) == [
            ("w0", 2.0),
            ("w1", 1.0),
            ("w2", 1.0),
        ]
