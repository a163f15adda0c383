"""The sweep ends orphaned runs, and no others."""

import logging
import time
from dataclasses import replace

import msgspec
import pytest
from msgspec import structs

from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.stores.runs.run_store import StoredRun
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunStatus
from tests.integration.lifecycle.test_cancel import cancel
from tests.support.broker.nats_server import NatsServer
from tests.support.inspection import dead_letters, queue_is_empty
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.sweeping import (
    FAKE_ADVISORY,
    YAML,
    CrashedWorker,
    _no_advisories,
    _no_submissions,
    config,
    messages_in_queue,
    rounds,
    store_without_job,
    stored,
)
from tests.support.waiting import LIMIT_SEC, eventually, eventually_equals

__all__ = ["_no_advisories", "_no_submissions", "config"]

# Runs without an owner


async def test_a_cancel_without_a_worker_converges(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    run_id = await gateway.submit("noop")
    await CrashedWorker(config).take()
    await cancel(gateway, run_id, reason="enough")
    run = await gateway.ends(run_id)
    assert (run["status"], run["reason"], run["cancel_reason"]) == ("CANCELLED", None, "enough")
    assert "worker dead" in run["error"]
    assert run["tasks"] == {"nothing": "CANCELLED"}
    assert await eventually(lambda: queue_is_empty(gateway), describe="its message is removed")
    assert await dead_letters(gateway) == []


async def test_an_interrupted_cancel_of_an_unstarted_run_converges(gateway: RunningGateway) -> None:
    run_id = await gateway.submit("noop")
    run = await gateway.inside.runs.store.get_from_leader(run_id)
    assert run is not None
    wished = structs.replace(run.snapshot, status=RunStatus.CANCELLING, cancel_requested_at=time.time())
    await gateway.inside.runs.store.replace(wished, revision=run.revision)
    assert (await gateway.ends(run_id))["status"] == "CANCELLED"


async def test_a_cancelled_run_with_exhausted_deliveries_is_cancelled(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    run_id = await gateway.submit("noop")
    await CrashedWorker(replace(config, consumer_max_deliver=1)).take()
    await cancel(gateway, run_id)
    await publish_acked(
        gateway.inside.connection, FAKE_ADVISORY, msgspec.json.encode({"stream_seq": 1, "deliveries": 1})
    )
    run = await gateway.ends(run_id)
    assert (run["status"], run["reason"]) == ("CANCELLED", None)
    assert await dead_letters(gateway) == []


async def test_a_run_past_its_time_limit_without_an_owner_fails(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    limited = await gateway.submit("noop", timeout_sec=1)
    unlimited = await gateway.submit("noop")
    # One after the other without a pause: after its AckWait the first one would come again.
    await CrashedWorker(config).take(times=2)
    run = await gateway.ends(limited)
    assert (run["status"], run["reason"]) == ("FAILED", "timeout")
    assert "timeout_sec of 1 s" in run["error"]
    [letter] = await eventually(lambda: dead_letters(gateway), describe="a dead letter")
    assert (letter["reason"], letter["run_id"]) == ("timeout", limited)
    await eventually_equals(
        lambda: messages_in_queue(gateway), 1, describe="its message is removed, and no other"
    )
    assert (await gateway.get(unlimited))["status"] == "RUNNING"


@pytest.mark.usefixtures("_no_advisories")
async def test_time_without_nats_does_not_count_as_silence(
    config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    strict = replace(config, nats_url=own_nats.url, consumer_max_deliver=1, consumer_ack_wait_sec=3.0)
    async with running_gateway(strict) as gateway:
        run_id = await gateway.submit("noop")
        await CrashedWorker(strict).take()
        sweeper = gateway.inside.sweeper
        await rounds(gateway, 1)
        [run] = [run async for group in sweeper._runs.groups() for run in group]
        own_nats.kill()
        await eventually(lambda: run.silent_sec > 3.5, describe="the run would count as left alone")
        own_nats.start()
        await gateway.inside.connection.wait_ready(LIMIT_SEC)
        back_at = gateway.inside.connection.state.since
        ended = await gateway.ends(run_id)
        assert ended["reason"] == "deliveries_exhausted"
        assert ended["end_time"] - back_at > 2.5


@pytest.mark.usefixtures("_no_advisories")
@pytest.mark.parametrize("written", ["before it is read", "after it is read"])
async def test_a_run_that_makes_progress_is_not_touched(
    config: NatsBackendConfig, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    """Its owner writes between the decision and the repair."""
    run_id = await gateway.submit("noop")
    await CrashedWorker(replace(config, consumer_max_deliver=1)).take()
    store = gateway.inside.sweeper.unowned_runs.store
    read = store.get_from_leader
    woken_at = 0.0

    async def overtaken(run_id: str) -> StoredRun | None:
        nonlocal woken_at
        run = await read(run_id)
        assert run is not None
        if woken_at:
            return run
        woken_at = time.time()
        woken = structs.replace(run.snapshot, heartbeat_at=woken_at)
        await gateway.inside.runs.store.replace(woken, revision=run.revision)
        return await read(run_id) if written == "before it is read" else run

    monkeypatch.setattr(store, "get_from_leader", overtaken)
    run = await gateway.ends(run_id)
    # Only after its next silence.
    assert run["end_time"] - woken_at > config.consumer_ack_wait_sec
    assert (run["heartbeat_at"], run["reason"]) == (woken_at, "deliveries_exhausted")
    # Counted when all is done that belongs to it.
    assert await eventually(lambda: gateway.inside.sweeper.actions, describe="it is counted") == {
        "deliveries_exhausted": 1
    }


@pytest.mark.usefixtures("_no_submissions")
async def test_invalid_records_do_not_stop_the_sweep(
    gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    connection = gateway.inside.connection
    await publish_acked(connection, "$KV.pyoco_runs.not-a-run", b"{nonsense")
    half = {"status": "PENDING", "heartbeat_at": 1.0, "tag": "default"}
    await publish_acked(connection, "$KV.pyoco_runs.half-a-run", msgspec.json.encode(half))
    broken = await store_without_job(gateway, workflow_yaml=YAML.encode())
    no_text = {"Pyoco-Kind": "source"}
    await publish_acked(connection, f"pyoco.journal.default.{broken.run_id}", b"\xff", no_text)
    job = await store_without_job(gateway)
    await eventually_equals(lambda: messages_in_queue(gateway), 1, describe="the run after them gets its job")
    await rounds(gateway, 3)
    said = [getattr(record, "run_id", "") for record in caplog.records if record.levelno >= logging.WARNING]
    assert sorted(said) == sorted(["half-a-run", "not-a-run", broken.run_id])
    assert (await stored(gateway, broken.run_id)).status is RunStatus.FAILED
    assert (await stored(gateway, job.run_id)).status is RunStatus.PENDING
