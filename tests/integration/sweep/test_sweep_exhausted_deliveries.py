"""Exhausted deliveries end their runs, with or without an advisory."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.queue.work_queue import Delivery, WorkQueue
from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker import PyocoNatsWorker
from tests.flows import basics
from tests.support.inspection import dead_letters, queue_is_empty, started_pid
from tests.support.places import FLOWS
from tests.support.programs import WORKER, running
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.sweeping import (
    FAKE_ADVISORY,
    CrashedWorker,
    _no_advisories,
    advisories,
    config,
    messages_in_queue,
    rounds,
    stored,
)
from tests.support.running.workers import serving_worker
from tests.support.waiting import LIMIT_SEC, NEVER_SEC, eventually, eventually_equals

__all__ = ["_no_advisories", "config"]


# Deliveries that are used up


async def test_a_run_that_kills_its_workers_fails(
    config: NatsBackendConfig, nats_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Long enough for a worker that is held up: each of the two deliveries is to be another worker's.
    strict = replace(config, consumer_max_deliver=2, consumer_ack_wait_sec=2.5)
    settings = {
        "PYOCO_CONSUMER_ACK_WAIT_SEC": "2.5",
        "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "0.3",
        "PYOCO_CONSUMER_MAX_DELIVER": "2",
        "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.1",
    }
    arguments = ("--flows", str(FLOWS), "--nats-url", nats_url)
    async with running_gateway(strict) as gateway:
        marker = tmp_path / "started"
        run_id = await gateway.submit("waiting", params={"path": str(tmp_path / "x"), "started": str(marker)})
        for attempt in (1, 2):
            with running(WORKER, *arguments, "--worker-id", f"w-{attempt}", cwd=tmp_path, **settings) as (
                worker,
                _,
            ):
                await started_pid(marker)
                marker.unlink()

                async def is_recorded(worker_id: str = f"w-{attempt}") -> bool:
                    snapshot = await stored(gateway, run_id)
                    return snapshot.worker_id == worker_id and bool(snapshot.tasks)

                await eventually(is_recorded, describe="its task is in the snapshot")
                worker.process.kill()
                worker.end()
        # Healthy, and its pulls make the server notice that the deliveries are used up.
        async with serving_worker(strict, worker_id="healthy"):
            run = await gateway.ends(run_id)
            assert (run["status"], run["reason"]) == ("FAILED", "deliveries_exhausted")
            assert "2 times" in run["error"]
            assert "w-2" in run["error"]
            assert run["tasks"] == {"wait_for_file": "FAILED"}
            assert (await gateway.ends(await gateway.submit("noop")))["status"] == "COMPLETED"
        assert await eventually(lambda: queue_is_empty(gateway), describe="the queue is empty")
        [letter] = await dead_letters(gateway)
        assert (letter["reason"], letter["run_id"]) == ("deliveries_exhausted", run_id)
        assert (letter["worker_id"], letter["num_delivered"], letter["tag"]) == ("w-2", 2, "default")
        assert gateway.inside.sweeper.actions == {"deliveries_exhausted": 1}
    [said] = [record for record in caplog.records if getattr(record, "reason", "") == "deliveries_exhausted"]
    assert (said.levelname, said.run_id, said.err_id) == ("ERROR", run_id, "ERR-PYOCO-0007")  # type: ignore[attr-defined]


@pytest.mark.usefixtures("_no_advisories")
async def test_exhausted_deliveries_are_noticed_without_the_advisory(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    strict = replace(config, consumer_max_deliver=2)
    run_id = await gateway.submit("noop")
    await CrashedWorker(strict).take(times=2)
    run = await gateway.ends(run_id)
    assert (run["status"], run["reason"]) == ("FAILED", "deliveries_exhausted")
    assert "2 times" in run["error"]
    assert "worker dead" in run["error"]
    await eventually(lambda: queue_is_empty(gateway), describe="its message is gone")
    assert [letter["reason"] for letter in await dead_letters(gateway)] == ["deliveries_exhausted"]


@pytest.fixture
async def deaf_worker(config: NatsBackendConfig) -> AsyncIterator[PyocoNatsWorker]:
    """Takes jobs and never acks."""
    once = replace(config, consumer_max_deliver=1)
    worker = await PyocoNatsWorker.connect(once, flow_resolver=lambda _: basics.noop_flow)
    yield worker
    await worker.close()


@asynccontextmanager
async def taking_twice(worker: PyocoNatsWorker) -> AsyncIterator["asyncio.Task[Delivery]"]:
    """It takes a job and lets AckWait pass during its next pull: the server sends an advisory."""
    async with asyncio.timeout(LIMIT_SEC):
        assert (await worker._intake.take()).id == (1, 1)
    second = asyncio.create_task(worker._intake.take())
    try:
        yield second
    finally:
        second.cancel()
        await asyncio.wait({second})


async def test_an_advisory_starts_a_round(config: NatsBackendConfig, deaf_worker: PyocoNatsWorker) -> None:
    """The rounds are an hour apart: only the advisory can have started one."""
    async with running_gateway(config) as gateway:
        sweeper = gateway.inside.sweeper
        sweeper._interval_sec, seen = 3600.0, sweeper.rounds
        # End the pause that started before the setting was patched.
        sweeper._loop.wake()
        await eventually(lambda: sweeper.rounds > seen, describe="the round before the long pause")
        run_id = await gateway.submit("noop")
        async with taking_twice(deaf_worker) as second, asyncio.timeout(LIMIT_SEC):
            # No worker has begun the run: it has a new job.
            assert (await second).id == (2, 1)
        assert (await gateway.get(run_id))["status"] == "PENDING"
        assert sweeper.actions == {"job_published": 1}


async def test_an_advisory_is_kept_without_a_gateway(
    config: NatsBackendConfig, deaf_worker: PyocoNatsWorker
) -> None:
    async with running_gateway(config) as gateway:
        await gateway.inside.sweeper.close()
        run_id = await gateway.submit("noop")

        async def advised() -> bool:
            return await advisories(gateway) == 1

        async with taking_twice(deaf_worker):
            await eventually(advised, describe="the advisory is stored")
        assert (await gateway.get(run_id))["status"] == "PENDING"
    async with running_gateway(config) as gateway:
        async with asyncio.timeout(LIMIT_SEC):
            assert (await deaf_worker._intake.take()).id == (2, 1)
        await eventually_equals(lambda: advisories(gateway), 0, describe="the advisory is removed")


async def test_an_advisory_of_an_active_run_is_kept(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    release, marker = tmp_path / "release", tmp_path / "started"
    # Half of AckWait without a sign, and the run would count as given up: more than a worker is held up here.
    patience_sec = 2.5
    async with serving_worker(replace(config, consumer_ack_wait_sec=2 * patience_sec)):
        run_id = await gateway.submit("waiting", params={"path": str(release), "started": str(marker)})
        await started_pid(marker)
        began = time.monotonic()
        advisory = msgspec.json.encode({"stream_seq": 1, "deliveries": 1})
        await publish_acked(gateway.inside.connection, FAKE_ADVISORY, advisory)
        # So that only its heartbeats can be why it is left alone.
        await eventually(lambda: time.monotonic() - began > patience_sec, describe="it lasts for long enough")
        await rounds(gateway, 2)
        assert (await gateway.get(run_id))["status"] == "RUNNING"
        release.touch()
        assert (await gateway.ends(run_id))["status"] == "COMPLETED"
    await eventually_equals(lambda: advisories(gateway), 0, describe="the advisory is removed")
    assert not gateway.inside.sweeper.actions


async def test_an_exhausted_duplicate_is_only_removed(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    release, marker = tmp_path / "release", tmp_path / "started"
    # Nothing here takes so long that the run would count as given up.
    async with serving_worker(replace(config, consumer_ack_wait_sec=NEVER_SEC)):
        run_id = await gateway.submit("waiting", params={"path": str(release), "started": str(marker)})
        await started_pid(marker)
        job = await WorkQueue(gateway.inside.connection).message(1)
        assert job is not None
        beside = await publish_acked(gateway.inside.connection, "pyoco.work.nobody", job.data)
        advisory = msgspec.json.encode({"stream_seq": beside, "deliveries": 1})
        await publish_acked(gateway.inside.connection, FAKE_ADVISORY, advisory)
        await eventually_equals(
            lambda: messages_in_queue(gateway), 1, describe="the other message is removed"
        )
        release.touch()
        assert (await gateway.ends(run_id))["status"] == "COMPLETED"


async def test_an_exhausted_invalid_message_becomes_a_dead_letter(gateway: RunningGateway) -> None:
    sequence = await publish_acked(gateway.inside.connection, "pyoco.work.nobody", b"{nonsense")
    for advisory in (b"{nonsense", msgspec.json.encode({"stream_seq": sequence, "deliveries": 4})):
        await publish_acked(gateway.inside.connection, FAKE_ADVISORY, advisory)
    [letter] = await eventually(lambda: dead_letters(gateway), describe="a dead letter")
    assert (letter["reason"], letter["tag"], letter["num_delivered"]) == ("invalid_job", "nobody", 4)
    assert await eventually(lambda: queue_is_empty(gateway), describe="the queue is empty")
    await eventually_equals(lambda: advisories(gateway), 0, describe="both advisories are removed")
