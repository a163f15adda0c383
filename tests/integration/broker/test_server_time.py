"""Ages of stored records are computed with the clock of NATS: that of the gateway may be wrong."""

import time
from dataclasses import replace

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.object_store import ObjectStore
from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.workers.worker_registry import WorkerRegistry
from pyoco_server.config import NatsBackendConfig
from pyoco_server.runs.open_runs import OpenRuns
from pyoco_server.runs.sweep.retention import Retention, WorkerRecordRetention
from pyoco_server.wheels.wheel_registry import ABANDONED_SEC
from tests.support.broker.connections import connected
from tests.support.broker.stored_runs import ended, write
from tests.support.broker.worker_records import a_record, put_record

DAY_SEC = 86_400.0
AT_ONCE_SEC = 0.000001


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(config, run_retention_sec=7 * DAY_SEC, worker_record_retention_sec=7 * DAY_SEC)


def set_clock(monkeypatch: pytest.MonkeyPatch, *, ahead_sec: float) -> None:
    """The clock of this machine jumps."""
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + ahead_sec)


async def removed_runs(connection: Connection) -> int:
    return sum([count async for count in Retention(connection, OpenRuns()).remove_ended()])


async def test_a_clock_that_is_ahead_removes_no_recent_run(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    [run_id] = await write(RunStore(connection), ended())
    set_clock(monkeypatch, ahead_sec=30 * DAY_SEC)
    assert await removed_runs(connection) == 0
    assert await RunStore(connection).exists(run_id)


async def test_a_clock_that_is_behind_does_not_keep_old_runs(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(replace(config, run_retention_sec=AT_ONCE_SEC)) as connection:
        await write(RunStore(connection), ended())
        set_clock(monkeypatch, ahead_sec=-30 * DAY_SEC)
        assert await removed_runs(connection) == 1


async def test_a_clock_that_is_ahead_removes_no_worker_record(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put_record(connection, a_record("lately", seen_at=time.time()))
    set_clock(monkeypatch, ahead_sec=30 * DAY_SEC)
    assert await WorkerRecordRetention(connection).remove() == 0
    assert [record.worker_id for record in await WorkerRegistry(connection).all()] == ["lately"]


async def test_a_clock_that_is_ahead_does_not_abandon_an_upload(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ObjectStore(connection, connection.config.wheel_object_store_bucket)
    await store._store_chunk("under-way", 0, b"the first bytes")
    set_clock(monkeypatch, ahead_sec=DAY_SEC)
    assert await store.abandoned(ABANDONED_SEC) == []
    assert await store.abandoned(0.0) == ["under-way"]


async def test_the_state_of_a_stream_has_the_time_of_its_server(connection: Connection) -> None:
    await write(RunStore(connection), ended())
    first, second = [await stream_state(connection, "KV_pyoco_runs") for _ in range(2)]
    assert 0 < first.server_time <= second.server_time
