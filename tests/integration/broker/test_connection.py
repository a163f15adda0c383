"""The connection to a real NATS server: its errors, and that it never hangs."""

import ast
import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from nats.aio.transport import TcpTransport

import pyoco_server
from pyoco_server.broker import streams_and_buckets
from pyoco_server.broker.client.connection import Connection, ConnectionStatus, NoResponders, PayloadTooLarge
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from tests.support.broker.connections import connected
from tests.support.broker.nats_server import NatsServer
from tests.support.waiting import LIMIT_SEC, eventually


async def test_a_request_in_flight_fails_as_soon_as_the_server_dies(
    own_connection: Connection, own_nats: NatsServer
) -> None:
    with own_nats.paused():
        waiting = asyncio.create_task(own_connection.request("$JS.API.INFO"))
        await asyncio.sleep(0)
        await asyncio.to_thread(own_nats.kill)
        with pytest.raises(NatsUnavailable, match="lost"):
            await waiting
        own_nats.start()
    await own_connection.wait_ready(LIMIT_SEC)
    assert own_connection.state.status is ConnectionStatus.CONNECTED


async def test_a_closed_socket_is_an_outage_before_nats_py_has_noticed(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection.client, "try_publish", lambda *_: False)
    transport, flusher = connection.client._transport, connection.client._flusher_task
    assert isinstance(transport, TcpTransport)
    assert transport._io_writer is not None
    assert flusher is not None
    # Without it, nats-py writes to the socket at once.
    flusher.cancel()
    await asyncio.wait({flusher})
    transport._io_writer.transport.abort()
    with pytest.raises(NatsUnavailable):
        await connection.request("$JS.API.INFO")


async def test_a_request_without_responders_fails_at_once(connection: Connection) -> None:
    with pytest.raises(NoResponders, match=r"nobody\.home"):
        await connection.request("nobody.home")


async def test_a_missing_stream_is_reported_with_the_cure(connection: Connection) -> None:
    with pytest.raises(NoResponders, match=r"nats-setup.*nats-config"):
        await connection.request("$JS.API.DIRECT.GET.PYOCO_NOT_THERE", b"{}")


async def test_a_payload_over_the_limit_is_not_reported_as_an_outage(connection: Connection) -> None:
    with pytest.raises(PayloadTooLarge, match="1048576"):
        await connection.request("anything", b"x" * (connection.max_payload + 1))


async def test_credentials_never_appear_in_an_error(
    connection: Connection, config: NatsBackendConfig
) -> None:
    assert "@" in config.nats_url
    assert "@" not in str(connection.unavailable("for a test"))


async def test_closing_while_there_is_no_server_is_quick(
    config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    own_nats.kill()
    async with connected(replace(config, nats_url=own_nats.url), ready=False) as connection:
        with pytest.raises(NatsUnavailable):
            await connection.wait_ready(0.3)


async def test_closing_while_a_reconnect_is_being_prepared_is_quick(
    own_connection: Connection, own_nats: NatsServer
) -> None:
    """A request of a hook could swallow the cancellation, and `close` would hang."""
    preparing = asyncio.Event()

    async def hook() -> None:
        preparing.set()
        await own_connection.request("$JS.API.INFO")

    own_connection.on_connect(hook)
    for _ in range(2):
        preparing.clear()
        await asyncio.to_thread(own_nats.kill)
        await eventually(lambda: not own_connection.state.up, describe="the loss is seen")
        await asyncio.to_thread(own_nats.start)
        await preparing.wait()
    async with asyncio.timeout(LIMIT_SEC):
        await own_connection.close()
    assert own_connection.state.status is ConnectionStatus.CLOSED


async def test_close_cancels_again_when_a_cancellation_is_swallowed(connection: Connection) -> None:
    """As nats-py does it with `asyncio.wait_for`, when its result comes in the same moment."""
    preparing = asyncio.Event()

    async def swallow() -> None:
        preparing.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    connection.on_connect(swallow)
    with pytest.raises(NoResponders):
        await connection.request("nobody")
    await preparing.wait()
    async with asyncio.timeout(LIMIT_SEC):
        await connection.close()


def test_asyncio_wait_for_is_not_used() -> None:
    source = Path(pyoco_server.__file__).parent
    users = [
        f"{module.relative_to(source)}:{node.lineno}"
        for module in source.rglob("*.py")
        if "wait_for" in (text := module.read_text())
        for node in ast.walk(ast.parse(text))
        if (isinstance(node, ast.Attribute) and node.attr == "wait_for")
        or (isinstance(node, ast.ImportFrom) and any(each.name == "wait_for" for each in node.names))
    ]
    assert users == [], "asyncio.wait_for loses a cancellation on Python 3.11; use asyncio.timeout"


async def test_a_server_that_is_too_old_is_reported_with_the_cure(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams_and_buckets, "_MIN_API_LEVEL", 99)
    async with connected(config, ready=False) as connection:
        await eventually(lambda: "too old" in connection.state.detail, describe="the reason is known")
        with pytest.raises(NatsUnavailable, match=r"too old; nats-server 2\.14 or newer is needed: upgrade"):
            await connection.wait_ready(0.1)


async def test_a_full_disk_is_reported_with_the_cure(
    config: NatsBackendConfig, own_nats: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    own_nats.stop()
    own_nats.max_file_store = 10**7
    own_nats.start()
    async with connected(replace(config, nats_url=own_nats.url), ready=False) as connection:
        await eventually(lambda: "free disk space" in connection.state.detail, describe="the reason is known")
        with pytest.raises(NatsUnavailable, match=r"free disk space .* PYOCO_DLQ_MAX_BYTES"):
            await connection.wait_ready(1.0)
    # Logged once for several attempts.
    assert sum("free disk space" in record.message for record in caplog.records) == 1


async def test_missing_resources_are_created_and_existing_ones_are_not_changed(
    config: NatsBackendConfig, connection: Connection
) -> None:
    context = connection.client.jetstream()
    names = {stream.config.name for stream in await context.streams_info()}
    assert names == {
        "PYOCO_WORK",
        "PYOCO_DLQ",
        "PYOCO_JOURNAL",
        "PYOCO_LOGS",
        "PYOCO_OBJECTS",
        "KV_pyoco_flows",
        "KV_pyoco_artifact_usage",
        "PYOCO_WAIT_EVENTS",
        "PYOCO_ADVISORIES",
        "KV_pyoco_leases",
        "KV_pyoco_bulk",
        "KV_pyoco_runs",
        "KV_pyoco_waits",
        "KV_pyoco_idempotency",
        "KV_pyoco_workers",
        "KV_pyoco_auth",
        "KV_pyoco_wheel_history",
        "KV_pyoco_schedules",
        "KV_pyoco_signals",
        "KV_pyoco_triggers",
        "KV_pyoco_receipts",
        "KV_pyoco_event_retries",
        "KV_pyoco_requests",
        "KV_pyoco_views",
        "KV_pyoco_alerts",
        "PYOCO_EVENTS",
        "PYOCO_AUDIT",
        "PYOCO_AUDIT_LOG",
        "PYOCO_EVENTS_IN",
        "PYOCO_DELIVERIES",
        "OBJ_pyoco_wheels",
    }
    work = (await context.stream_info("PYOCO_WORK")).config
    assert (work.retention, work.subjects, work.num_replicas) == ("workqueue", ["pyoco.work.>"], 1)
    dlq = (await context.stream_info("PYOCO_DLQ")).config
    assert (dlq.max_age, dlq.max_msgs, dlq.max_bytes) == (604800, 100000, 536870912)
    assert (await context.stream_info("KV_pyoco_workers")).config.max_age == 0
    assert (await context.stream_info("PYOCO_EVENTS")).config.max_age == 604800
    assert (await context.stream_info("KV_pyoco_receipts")).config.allow_msg_ttl

    dlq.max_msgs = 7
    await context.update_stream(dlq)
    await streams_and_buckets.ensure_resources(connection)
    assert (await context.stream_info("PYOCO_DLQ")).config.max_msgs == 7


def test_every_resource_has_the_configured_replicas(config: NatsBackendConfig) -> None:
    streams = streams_and_buckets.resources(replace(config, nats_replicas=3))
    assert {stream.num_replicas for stream in streams} == {3}


async def test_ten_concurrent_starts_create_each_resource_once(config: NatsBackendConfig) -> None:
    async with AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(connected(config, ready=False)) for _ in range(10)]
        for connection in connections:
            await connection.wait_ready(LIMIT_SEC)
        streams = await connections[0].client.jetstream().streams_info()
        assert len(streams) == len(streams_and_buckets.resources(config))


async def test_nats_py_reads_the_buckets_and_the_object_store(connection: Connection) -> None:
    """Other NATS tools must be able to look into them."""
    context = connection.client.jetstream()
    bucket = await context.key_value("pyoco_runs")
    await Bucket(connection, "pyoco_runs").create("key", b"value")
    assert (await bucket.get("key")).value == b"value"
    store = await context.object_store("pyoco_wheels")
    await store.put("name", b"data")
    assert (await store.get("name")).data == b"data"


async def test_a_bucket_overwrites_only_the_named_revision(connection: Connection) -> None:
    bucket = Bucket(connection, "pyoco_runs")
    assert await bucket.get("k") is None
    first = await bucket.create("k", b"1")
    with pytest.raises(RevisionConflict):
        await bucket.create("k", b"again")
    second = await bucket.update("k", b"2", revision=first)
    with pytest.raises(RevisionConflict):
        await bucket.update("k", b"stale", revision=first)
    with pytest.raises(RevisionConflict):
        await bucket.delete("k", revision=first)
    for read in (bucket.get, bucket.get_from_leader):
        entry = await read("k")
        assert entry is not None
        assert (entry.value, entry.revision) == (b"2", second)
    await bucket.delete("k", revision=second)
    for read in (bucket.get, bucket.get_from_leader):
        assert await read("k") is None
    await bucket.create("k", b"reborn")


async def test_a_bucket_without_direct_reads_is_read_from_its_leader(connection: Connection) -> None:
    context = connection.client.jetstream()
    await context.create_key_value(bucket="slow", direct=False)
    bucket = Bucket(connection, "slow")
    await bucket.create("k", b"v")
    entry = await bucket.get("k")
    assert entry is not None
    assert entry.value == b"v"
