"""`/workers`: listing, hiding, pausing and draining workers."""

import asyncio
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from pyoco_server import __version__
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.jetstream.stream_reads import StreamMessage
from pyoco_server.broker.stores.workers.worker_registry import OwnRecord, WorkerRegistry
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.workers.worker_models import WorkerRecord, WorkerState
from tests.support.broker.connections import connected
from tests.support.broker.nats_server import NatsServer
from tests.support.broker.worker_records import a_record, ask, put_record, worker, worker_is
from tests.support.problems import assert_problem
from tests.support.programs import WORKER, running
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually

SPEC_FIELDS = {
    *("worker_id", "instance_id", "state", "hidden", "last_seen_at", "last_heartbeat_at", "tags"),
    *("current_run_id", "last_run_id", "last_run_status", "stopped_at", "stop_reason", "wheel_sync"),
}
MORE_FIELDS = {
    "flows",
    *("paused", "draining", "last_progress_at", "slots", "slots_busy", "current_run_ids"),
    "executor_error",
    *("last_run_started_at", "last_run_finished_at", "version", "pyoco_version"),
    *("host", "usage", "history"),
}

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Seen later than now: such a worker is here for as long as the test lasts.
STAYS_SEC = 600.0


async def listed(gateway: RunningGateway, **query: object) -> list[str]:
    response = await gateway.http.get("/workers", params={name: str(value) for name, value in query.items()})
    assert response.status_code == 200, response.text
    return [each["worker_id"] for each in response.json()]


@pytest_asyncio.fixture(loop_scope="module")
async def five(shared_gateway: RunningGateway) -> RunningGateway:
    """A gateway whose registry has a worker of each state, and a hidden one."""
    now = time.time()
    for record in (
        a_record("idle", seen_at=now + STAYS_SEC),
        a_record("busy", seen_at=now + STAYS_SEC, state=WorkerState.RUNNING),
        a_record("gone", seen_at=now - 3600),
        a_record("stopped", seen_at=now - 7200, state=WorkerState.STOPPED_GRACEFUL),
        a_record("secret", seen_at=now + STAYS_SEC, hidden=True),
    ):
        await put_record(shared_gateway.inside.connection, record)
    return shared_gateway


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["busy", "idle"]),
        ({"scope": "active"}, ["busy", "idle"]),
        ({"scope": "all"}, ["busy", "idle", "gone", "stopped"]),
        ({"include_hidden": "true"}, ["busy", "idle", "secret"]),
        ({"include_hidden": "1", "scope": "all"}, ["busy", "idle", "secret", "gone", "stopped"]),
        ({"include_hidden": "0"}, ["busy", "idle"]),
        ({"state": "IDLE"}, ["idle"]),
        ({"state": "DISCONNECTED"}, ["gone"]),
        ({"state": "STOPPED_GRACEFUL"}, ["stopped"]),
        ({"state": "RUNNING", "scope": "active"}, ["busy"]),
        ({"state": "DISCONNECTED", "scope": "active"}, []),
        ({"limit": 1}, ["busy"]),
        ({"limit": 3, "scope": "all"}, ["busy", "idle", "gone"]),
        ({"limit": 500}, ["busy", "idle"]),
    ],
)
async def test_the_query_says_which_workers_are_listed(
    five: RunningGateway, query: dict[str, object], expected: list[str]
) -> None:
    assert await listed(five, **query) == expected


async def test_a_worker_has_all_its_fields_and_keeps_what_it_was_asked(config: NatsBackendConfig) -> None:
    async with running_gateway(config) as gateway:
        assert await listed(gateway, scope="all", include_hidden=True) == []
        async with serving_worker(config, worker_id="w-1", tags=["cpu", "gpu"], concurrency=2):
            [reported] = (await gateway.http.get("/workers")).json()
            assert set(reported) == SPEC_FIELDS | MORE_FIELDS
            assert reported["history"] == []
            changing: dict[str, Any] = {
                "last_seen_at": 0,
                "last_heartbeat_at": 0,
                "usage": None,
                "history": [],
            }
            assert await worker(gateway, "w-1") | changing == reported | changing
            assert reported["host"]["name"] == socket.gethostname()
            assert reported["usage"]["processes"] >= 3, "the worker and its two executors"
            assert (reported["state"], reported["tags"]) == ("IDLE", ["cpu", "gpu"])
            assert (reported["slots"], reported["slots_busy"], reported["current_run_ids"]) == (2, 0, [])
            assert (reported["hidden"], reported["paused"], reported["draining"]) == (False, False, False)
            assert (reported["version"], reported["stop_reason"]) == (__version__, None)
            assert reported["pyoco_version"].startswith("0.8")
            run_id = await gateway.submit("noop", tag="gpu")
            await gateway.ends(run_id)
            after = await worker_is(gateway, "w-1", last_run_id=run_id, state="IDLE")
            assert after["last_run_status"] == "COMPLETED"
            assert after["last_progress_at"] >= reported["last_seen_at"]
            await ask(gateway, "w-1", hidden=True, paused=True)
            since = (await worker(gateway, "w-1"))["last_heartbeat_at"]

            async def heard_twice_since() -> bool:
                heard = (await worker(gateway, "w-1"))["last_heartbeat_at"]
                return bool(heard > since + 2 * config.worker_heartbeat_interval_sec)

            await eventually(heard_twice_since, describe="the worker wrote its record again")
            await worker_is(gateway, "w-1", hidden=True, paused=True)
        assert await listed(gateway) == []
        assert await listed(gateway, state="STOPPED_GRACEFUL", include_hidden=True) == ["w-1"]
        async with serving_worker(config, worker_id="w-1"):
            await worker_is(gateway, "w-1", state="IDLE", hidden=True, paused=True)


async def test_a_killed_worker_is_disconnected(
    config: NatsBackendConfig, nats_url: str, tmp_path: Path
) -> None:
    settings = {"PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "0.2"}
    arguments = ("--worker-id", "w-1", "--nats-url", nats_url)
    with running(WORKER, *arguments, cwd=tmp_path, **settings) as (program, _):
        program.process.kill()
        async with running_gateway(replace(config, worker_disconnect_timeout_sec=1.0)) as gateway:
            await worker_is(gateway, "w-1", state="DISCONNECTED")
            assert await listed(gateway) == []
            assert await listed(gateway, state="DISCONNECTED") == ["w-1"]


async def test_reading_the_registry_costs_the_same_few_requests_however_many_workers(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    async with connected(config) as connection:
        async with asyncio.TaskGroup() as group:
            for number in range(600):
                record = a_record(f"w-{number:03d}", seen_at=now + STAYS_SEC)
                group.create_task(put_record(connection, record))
        sent: list[str] = []
        publish = connection.publish

        async def noting(subject: str, *arguments: Any, **options: Any) -> None:
            sent.append(subject)
            await publish(subject, *arguments, **options)

        monkeypatch.setattr(connection, "publish", noting)
        assert len(await WorkerRegistry(connection).all()) == 600
        assert len([subject for subject in sent if "pyoco_workers" in subject]) <= 3
    async with running_gateway(config) as gateway:
        assert await listed(gateway, limit=2) == ["w-000", "w-001"]
        assert len(await listed(gateway)) == 100


async def test_a_record_that_cannot_be_read_does_not_hide_the_others(
    five: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    await put_record(five.inside.connection, b"{not json", key="broken")
    assert await listed(five) == ["busy", "idle"]
    assert "broken" in caplog.text
    for response in (
        await five.http.get("/workers/broken"),
        await five.http.patch("/workers/broken", json={"hidden": True}),
    ):
        assert "worker broken" in assert_problem(response, 409, 45)["detail"]
    await delete_record(five, "broken")


async def test_a_deleted_or_unknown_worker_is_not_found(five: RunningGateway) -> None:
    await delete_record(five, "idle")
    assert await listed(five) == ["busy"]
    for worker_id in ("idle", "nobody"):
        assert_problem(await five.http.get(f"/workers/{worker_id}"), 404, 20)
        response = await five.http.patch(f"/workers/{worker_id}", json={"hidden": True})
        assert_problem(response, 404, 20)


async def delete_record(gateway: RunningGateway, key: str) -> None:
    bucket = Bucket(gateway.inside.connection, gateway.inside.config.workers_kv_bucket)
    entry = await bucket.get(key)
    assert entry is not None
    await bucket.delete(key, revision=entry.revision)


async def test_hiding_takes_a_worker_out_of_the_list_and_showing_puts_it_back(five: RunningGateway) -> None:
    before = time.time()
    reported = await ask(five, "idle", hidden=True)
    assert set(reported) == {"worker_id", "hidden", "paused", "draining", "state", "updated_at"}
    assert (reported["worker_id"], reported["hidden"], reported["paused"]) == ("idle", True, False)
    assert before <= reported["updated_at"] <= time.time()
    assert await listed(five) == ["busy"]
    assert (await ask(five, "idle", paused=True))["hidden"] is True, "only what is named changes"
    shown = await ask(five, "idle", hidden=False)
    assert (shown["hidden"], shown["paused"]) == (False, True)
    assert await listed(five) == ["busy", "idle"]


async def test_a_stopped_worker_is_not_asked_to_drain(five: RunningGateway) -> None:
    reported = await ask(five, "stopped", drain=True)
    assert (reported["draining"], reported["state"]) == (False, "STOPPED_GRACEFUL")
    assert (await ask(five, "gone", drain=True))["draining"] is True


async def test_concurrent_worker_changes_are_all_kept(config: NatsBackendConfig) -> None:
    """A worker that writes without a pause, and two gateways that change different things."""
    async with connected(config) as connection:
        now = time.time()
        own = OwnRecord(connection, a_record("w", seen_at=now))
        await own.save()
        registry, other = WorkerRegistry(connection), WorkerRegistry(connection)

        def setting(name: str, value: bool) -> Callable[[WorkerRecord], WorkerRecord]:
            def change(record: WorkerRecord) -> WorkerRecord:
                setattr(record, name, value)
                return record

            return change

        async def working() -> None:
            for number in range(60):
                own.record.slots_busy = number
                await own.save()

        async def wishing(registry: WorkerRegistry, name: str) -> None:
            for number in range(21):
                wanted = number % 2 == 0
                await registry.change("w", setting(name, wanted))
                stored = await registry.get("w")
                assert stored is not None
                assert getattr(stored, name) is wanted

        async with asyncio.TaskGroup() as group:
            for step in (working(), wishing(registry, "hidden"), wishing(other, "paused")):
                group.create_task(step)
        await own.save()
        stored = await registry.get("w")
        assert stored is not None
        assert (stored.hidden, stored.paused, stored.slots_busy) == (True, True, 59)


async def test_a_worker_change_is_read_back_despite_replica_lag(
    five: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = five.inside.workers
    read = WorkerRegistry._messages
    late = await read(registry)
    await ask(five, "idle", hidden=True)
    reads: list[int] = []

    async def lagging(self: WorkerRegistry) -> list[StreamMessage]:
        if self is not registry:  # the sweep reads the registry, too
            return await read(self)
        reads.append(1)
        return late if len(reads) < 3 else await read(self)

    monkeypatch.setattr(WorkerRegistry, "_messages", lagging)
    assert await listed(five) == ["busy"]
    assert len(reads) == 3


async def test_without_nats_the_answer_is_503(own_nats: NatsServer, config: NatsBackendConfig) -> None:
    config = replace(config, nats_url=own_nats.url)
    async with running_gateway(config) as gateway:
        assert await listed(gateway) == []
        own_nats.stop()
        responses: list[httpx.Response] = [
            await gateway.http.get("/workers"),
            await gateway.http.get("/workers/w"),
            await gateway.http.patch("/workers/w", json={"hidden": True}),
        ]
        for response in responses:
            assert_problem(response, 503, 3)


def events(found: dict[str, Any]) -> list[str]:
    return [event["kind"] for event in found["history"]]


async def test_the_history_says_when_a_worker_came_and_left_and_what_it_was_asked(
    config: NatsBackendConfig,
) -> None:
    async with running_gateway(config) as gateway:
        async with serving_worker(config, worker_id="w-1") as serving:
            for wish in ({"paused": True}, {"paused": True}, {"hidden": True}, {"paused": False}):
                await ask(gateway, "w-1", **wish)
            # The next heartbeat of the worker keeps what the gateway has written.
            since = (await worker(gateway, "w-1"))["last_heartbeat_at"]

            async def heard_since() -> bool:
                return bool((await worker(gateway, "w-1"))["last_heartbeat_at"] > since)

            await eventually(heard_since, describe="a heartbeat of the worker")
            await ask(gateway, "w-1", drain=True)
            await eventually(lambda: serving.drain_requested, describe="the worker knows of it")
        async with serving_worker(config, worker_id="w-1"):
            found = await worker_is(gateway, "w-1", state="IDLE")
        expected = ["started", "paused", "hidden", "resumed", "drain_requested", "stopped", "started"]
        assert events(found) == expected
        assert found["history"][5]["reason"] == "drained"
        times = [event["at"] for event in found["history"]]
        assert times == sorted(times)


async def test_a_worker_that_died_is_in_the_history_of_the_next_one(config: NatsBackendConfig) -> None:
    async with connected(config) as connection:
        await put_record(connection, a_record("w-1", seen_at=1000.0, instance_id="the one before"))
        own = OwnRecord(connection, a_record("w-1", seen_at=time.time()))
        await own.save()
        assert [(event.kind, event.at) for event in own.record.history] == [("disconnected", 1000.0)]
        # Not again with each write, and not of another worker with the same id.
        await put_record(connection, a_record("w-1", seen_at=2000.0, instance_id="another"))
        await own.save()
        assert [event.at for event in own.record.history] == [1000.0]


async def test_the_history_is_bounded(five: RunningGateway) -> None:
    for number in range(30):
        await ask(five, "idle", paused=number % 2 == 0)
    found = await worker(five, "idle")
    assert len(found["history"]) == 20
    assert found["history"][-1]["kind"] == "resumed"


async def test_the_command_that_adds_a_worker_is_shown(five: RunningGateway) -> None:
    response = await five.http.get("/worker-setup")
    assert response.status_code == 200
    assert response.json()["command"].startswith("pyoco-worker --flows ./flows --nats-url nats://")
