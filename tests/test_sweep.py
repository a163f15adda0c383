"""The sweep with real parts: whatever dies, each run gets its one end, and nothing is executed twice."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from pyoco_server.broker import jetstream_api
from pyoco_server.broker.advisories import Advisories, UsedUp
from pyoco_server.broker.journal import Journal
from pyoco_server.broker.publishing import publish_acked
from pyoco_server.broker.queued_runs import QueuedRuns
from pyoco_server.broker.resources import ensure_resources
from pyoco_server.broker.run_store import StoredRun
from pyoco_server.broker.work_queue import Delivery, WorkQueue
from pyoco_server.config import NatsBackendConfig
from pyoco_server.models import (
    Job,
    JournalEntry,
    LogLine,
    RunSnapshot,
    RunStatus,
    TaskStatus,
    encode,
    pending_snapshot,
)
from pyoco_server.runs import sweep_rules
from pyoco_server.runs.ownership import OwnedRun, claim
from pyoco_server.runs.submit import new_job
from pyoco_server.worker import PyocoNatsWorker

from .flows import basics
from .support.connections import connected
from .support.gateway import RunningGateway, running_gateway
from .support.nats_server import NatsServer
from .support.programs import SERVER, WORKER, running
from .support.waiting import eventually
from .support.workers import FLOWS, serving_worker
from .test_cancel import cancel
from .test_worker import dead_letters, queue_is_empty, started_pid

YAML = "version: 1\nflow:\n  graph: |\n    noop\ntasks:\n  noop:\n    callable: tests.flows.basics:nothing\n"
FAKE_ADVISORY = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.PYOCO_WORK.pyoco_worker_default"


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    """Rounds that a test can wait for."""
    return replace(config, sweep_interval_sec=0.2, consumer_ack_wait_sec=1.0, ack_progress_interval_sec=0.3)


@pytest.fixture
def _no_submissions(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that submit nothing while the sweep acts: it need not wait for the end of submissions."""
    monkeypatch.setattr(sweep_rules, "_SUBMISSION_SEC", 0.5)


class DeadWorker:
    """Takes a run and is never heard of again: no heartbeat, no acknowledgement, no pull."""

    def __init__(self, config: NatsBackendConfig) -> None:
        self._config = config
        self.delivery: Delivery | None = None

    async def take(self, times: int = 1) -> OwnedRun:
        worker = await PyocoNatsWorker.connect(
            self._config, flow_resolver=lambda _: basics.noop_flow, worker_id="dead"
        )
        for _ in range(times):
            async with asyncio.timeout(10):
                self.delivery = await worker._intake.take()
            owned = await claim(
                worker._services.store,
                WorkQueue(worker._connection),
                msgspec.json.decode(self.delivery.payload, type=Job),
                delivery=self.delivery.token,
                expected_revision=None,
                worker_id="dead",
                max_bytes=100_000,
            )
            await owned.write(_with_a_running_task)
        # Without close(), which would hand back what it has.
        await worker._connection.close()
        return owned


def _with_a_running_task(snapshot: RunSnapshot) -> RunSnapshot:
    return structs.replace(snapshot, tasks={"nothing": TaskStatus.RUNNING})


async def stored(gateway: RunningGateway, run_id: str) -> RunSnapshot:
    run = await gateway.inside.runs.get_from_leader(run_id)
    assert run is not None
    return run.snapshot


async def store_without_job(gateway: RunningGateway, **fields: Any) -> Job:
    """What a gateway leaves that is killed between its two writes."""
    job = new_job(**{"flow_name": "noop", "tag": "default", **fields})
    await gateway.inside.runs.create(pending_snapshot(job))
    return job


async def messages_in_queue(gateway: RunningGateway) -> int:
    context = gateway.inside.connection.client.jetstream()
    return int((await context.stream_info(gateway.inside.config.work_stream)).state.messages)


async def advisories(gateway: RunningGateway) -> int:
    context = gateway.inside.connection.client.jetstream()
    return int((await context.stream_info(gateway.inside.config.advisory_stream)).state.messages)


async def purge_queue(gateway: RunningGateway) -> None:
    await jetstream_api.call(gateway.inside.connection, "STREAM.PURGE.PYOCO_WORK")


@pytest.fixture
def _no_advisories(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the server had never told: the stream was not there at the time, say."""

    async def none(_: Advisories) -> AsyncIterator[UsedUp]:
        nothing: list[UsedUp] = []
        for used_up in nothing:
            yield used_up

    monkeypatch.setattr(Advisories, "waiting", none)


async def rounds(gateway: RunningGateway, count: int) -> None:
    """Wait until that many whole rounds have passed."""
    sweeper = gateway.inside.sweeper
    until = sweeper.rounds + count + 1
    await eventually(lambda: sweeper.rounds >= until, within=20, describe=f"{count} rounds have passed")


# A job that was never published, or is gone


@pytest.mark.usefixtures("_no_submissions")
async def test_a_run_whose_job_was_never_published_is_published_and_executed_once(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    counter = tmp_path / "executions"
    job = await store_without_job(
        gateway, flow_name="counting", params={"counter": str(counter), "seconds": 0}, timeout_sec=60
    )
    async with serving_worker(config):
        run = await gateway.ends(job.run_id)
    assert (run["status"], run["attempt"], run["timeout_sec"]) == ("COMPLETED", 1, 60)
    assert counter.read_text() == "executed\n"
    assert gateway.inside.sweeper.actions == {"job_published": 1}
    [said] = [record for record in caplog.records if "published it" in record.message]
    assert (said.run_id, said.flow_name, said.tag) == (job.run_id, "counting", "default")  # type: ignore[attr-defined]


@pytest.mark.usefixtures("_no_submissions")
async def test_a_lost_job_is_rebuilt_as_it_was(gateway: RunningGateway) -> None:
    job = await store_without_job(
        gateway, tag="later", tags=["later", "x"], params={"a": [1, None]}, workflow_yaml=YAML.encode()
    )
    await Journal(gateway.inside.connection).keep_source(job.run_id, YAML)

    async def published() -> bytes | None:
        message = await WorkQueue(gateway.inside.connection).message(1)
        return None if message is None else message.data

    assert await eventually(published, within=10, describe="the job is in the queue") == encode(job)


@pytest.mark.usefixtures("_no_submissions")
async def test_a_run_whose_flow_yaml_is_lost_fails_and_says_so(gateway: RunningGateway) -> None:
    job = await store_without_job(gateway, workflow_yaml=YAML.encode())
    run = await gateway.ends(job.run_id)
    assert (run["status"], run["reason"]) == ("FAILED", "invalid_job")
    assert "flow.yaml was not kept" in run["error"]
    [letter] = await dead_letters(gateway)
    assert (letter["reason"], letter["run_id"]) == ("invalid_job", job.run_id)
    assert await messages_in_queue(gateway) == 0


async def test_runs_that_wait_in_the_queue_are_left_there(gateway: RunningGateway) -> None:
    run_ids = {await gateway.submit("noop", tag=f"nobody-{number % 3}") for number in range(30)}
    sweeper = gateway.inside.sweeper
    await eventually(
        lambda: all(run_id in sweeper._queued for run_id in run_ids),
        within=10,
        describe="the sweep has asked itself where their jobs are",
    )
    await rounds(gateway, 3)
    assert await messages_in_queue(gateway) == len(run_ids)
    assert not sweeper.actions


async def test_a_queue_that_was_purged_is_filled_again(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    run_id = await gateway.submit("noop")
    sweeper = gateway.inside.sweeper
    await eventually(lambda: run_id in sweeper._queued, within=10, describe="its job was seen")
    await purge_queue(gateway)
    async with serving_worker(config):
        assert (await gateway.ends(run_id))["status"] == "COMPLETED"


async def test_a_begun_run_whose_message_was_purged_is_resumed(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    run_id = await gateway.submit("noop")
    await DeadWorker(config).take()
    await purge_queue(gateway)
    async with serving_worker(config):
        run = await gateway.ends(run_id, within=15)
    assert (run["status"], run["attempt"], run["worker_id"]) == ("COMPLETED", 2, "worker")
    assert gateway.inside.sweeper.actions == {"job_published": 1}


async def test_a_begun_run_is_given_one_job_however_long_nobody_takes_it(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    await gateway.submit("noop")
    await DeadWorker(config).take()
    await purge_queue(gateway)

    async def published() -> bool:
        return await messages_in_queue(gateway) == 1

    await eventually(published, within=10, describe="the job is in the queue again")
    await rounds(gateway, 10)
    assert await messages_in_queue(gateway) == 1
    assert gateway.inside.sweeper.actions == {"job_published": 1}


async def test_a_queue_that_was_made_anew_is_read_anew(config: NatsBackendConfig) -> None:
    async with connected(config) as connection:
        queued = QueuedRuns(connection)
        queued.compare(await queued.count())
        old, new = (new_job(flow_name="noop", tag="default") for _ in range(2))
        await WorkQueue(connection).publish(old, run_revision=1)
        assert [_ async for _ in queued.look()] == [None]
        assert old.run_id in queued
        await jetstream_api.call(connection, "STREAM.DELETE.PYOCO_WORK")
        await ensure_resources(connection)
        # As many messages as before, under the same sequences.
        await WorkQueue(connection).publish(new, run_revision=2)
        queued.compare(await queued.count())
        assert [_ async for _ in queued.look()] == [None]
        assert old.run_id not in queued
        assert new.run_id in queued


async def test_a_bucket_that_was_made_anew_is_read_anew(gateway: RunningGateway) -> None:
    connection, runs = gateway.inside.connection, gateway.inside.sweeper._runs

    async def known() -> list[str]:
        await gateway.inside.index.caught_up()
        return [run.run_id async for group in runs.groups() for run in group]

    old = await store_without_job(gateway)
    assert await known() == [old.run_id]
    await jetstream_api.call(connection, "STREAM.DELETE.KV_pyoco_runs")
    await ensure_resources(connection)
    new = await store_without_job(gateway)
    assert await known() == [new.run_id]


async def test_a_second_job_of_a_running_run_is_dropped(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    counter = tmp_path / "executions"
    async with serving_worker(config, concurrency=2):
        run_id = await gateway.submit("counting", params={"counter": str(counter), "seconds": 1.5})
        job = await eventually(
            lambda: WorkQueue(gateway.inside.connection).message(1), within=5, describe="its job"
        )
        await eventually(counter.exists, within=10, describe="the task began")
        await publish_acked(gateway.inside.connection, "pyoco.work.default", job.data)

        async def dropped() -> bool:
            return await messages_in_queue(gateway) == 1

        await eventually(dropped, within=1, describe="the second job is acked while the first one runs")
        run = await gateway.ends(run_id)
        assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
        assert await eventually(lambda: queue_is_empty(gateway), within=5, describe="the queue is empty")
    assert counter.read_text() == "executed\n"


# Deliveries that are used up


async def test_a_run_whose_workers_are_killed_again_and_again_fails(
    config: NatsBackendConfig, nats_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    strict = replace(config, consumer_max_deliver=2)
    settings = {
        "PYOCO_CONSUMER_ACK_WAIT_SEC": "1",
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

                await eventually(is_recorded, within=5, describe="its task is in the snapshot")
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
        assert await eventually(lambda: queue_is_empty(gateway), within=5, describe="the queue is empty")
        [letter] = await dead_letters(gateway)
        assert (letter["reason"], letter["run_id"]) == ("deliveries_exhausted", run_id)
        assert (letter["worker_id"], letter["num_delivered"], letter["tag"]) == ("w-2", 2, "default")
        assert gateway.inside.sweeper.actions == {"deliveries_exhausted": 1}
    [said] = [record for record in caplog.records if getattr(record, "reason", "") == "deliveries_exhausted"]
    assert (said.levelname, said.run_id, said.err_id) == ("ERROR", run_id, "ERR-PYOCO-0007")  # type: ignore[attr-defined]


@pytest.mark.usefixtures("_no_advisories")
async def test_used_up_deliveries_are_noticed_without_the_advisory(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    strict = replace(config, consumer_max_deliver=2)
    run_id = await gateway.submit("noop")
    await DeadWorker(strict).take(times=2)
    run = await gateway.ends(run_id)
    assert (run["status"], run["reason"]) == ("FAILED", "deliveries_exhausted")
    assert "2 times" in run["error"]
    assert "worker dead" in run["error"]
    await eventually(lambda: queue_is_empty(gateway), within=5, describe="its message is gone")
    assert [letter["reason"] for letter in await dead_letters(gateway)] == ["deliveries_exhausted"]


@pytest.fixture
async def deaf_worker(config: NatsBackendConfig) -> AsyncIterator[PyocoNatsWorker]:
    """Takes what the test has it take, and answers nothing."""
    once = replace(config, consumer_max_deliver=1)
    worker = await PyocoNatsWorker.connect(once, flow_resolver=lambda _: basics.noop_flow)
    yield worker
    await worker.close()


async def use_up(worker: PyocoNatsWorker) -> None:
    """Have the one delivery of a job pass its AckWait while the next pull is waiting."""
    async with asyncio.timeout(10):
        await worker._intake.take()
    assert await worker.run_once(timeout=2.0) is None


async def test_an_advisory_is_acted_on_at_once(
    config: NatsBackendConfig, deaf_worker: PyocoNatsWorker
) -> None:
    """The rounds are a minute apart: only the advisory can have woken it."""
    async with running_gateway(replace(config, sweep_interval_sec=60.0)) as gateway:
        await eventually(lambda: gateway.inside.sweeper.rounds == 1, within=5, describe="the first round")
        run_id = await gateway.submit("noop")
        await use_up(deaf_worker)
        run = await gateway.ends(run_id, within=2)
        assert (run["status"], run["reason"]) == ("FAILED", "deliveries_exhausted")
        assert "no worker ever began it" in run["error"]
        await eventually(lambda: queue_is_empty(gateway), within=2, describe="the message is removed")


async def test_an_advisory_is_kept_while_no_gateway_lives(
    config: NatsBackendConfig, deaf_worker: PyocoNatsWorker
) -> None:
    async with running_gateway(config) as gateway:
        await gateway.inside.sweeper.close()
        run_id = await gateway.submit("noop")
        await use_up(deaf_worker)
        assert await advisories(gateway) == 1
        assert (await gateway.get(run_id))["status"] == "PENDING"
    async with running_gateway(config) as gateway:
        assert (await gateway.ends(run_id))["reason"] == "deliveries_exhausted"

        async def dealt_with() -> bool:
            return await advisories(gateway) == 0

        await eventually(dealt_with, within=2, describe="the advisory is removed")


async def test_an_advisory_about_a_run_that_goes_on_waits_for_its_end(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    release, marker = tmp_path / "release", tmp_path / "started"
    async with serving_worker(config):
        run_id = await gateway.submit("waiting", params={"path": str(release), "started": str(marker)})
        await started_pid(marker)
        told = msgspec.json.encode({"stream_seq": 1, "deliveries": 1})
        await publish_acked(gateway.inside.connection, FAKE_ADVISORY, told)
        await rounds(gateway, 8)
        assert (await gateway.get(run_id))["status"] == "RUNNING"
        release.touch()
        assert (await gateway.ends(run_id))["status"] == "COMPLETED"

    async def dealt_with() -> bool:
        return await advisories(gateway) == 0

    await eventually(dealt_with, within=5, describe="the advisory is removed")
    assert not gateway.inside.sweeper.actions


async def test_a_given_up_message_beside_the_run_s_own_is_only_removed(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    release, marker = tmp_path / "release", tmp_path / "started"
    async with serving_worker(config):
        run_id = await gateway.submit("waiting", params={"path": str(release), "started": str(marker)})
        await started_pid(marker)
        job = await WorkQueue(gateway.inside.connection).message(1)
        assert job is not None
        beside = await publish_acked(gateway.inside.connection, "pyoco.work.nobody", job.data)
        told = msgspec.json.encode({"stream_seq": beside, "deliveries": 1})
        await publish_acked(gateway.inside.connection, FAKE_ADVISORY, told)

        async def removed() -> bool:
            return await messages_in_queue(gateway) == 1

        await eventually(removed, within=5, describe="the other message is removed")
        release.touch()
        assert (await gateway.ends(run_id))["status"] == "COMPLETED"


async def test_a_given_up_message_that_cannot_be_read_becomes_a_dead_letter(gateway: RunningGateway) -> None:
    sequence = await publish_acked(gateway.inside.connection, "pyoco.work.nobody", b"{nonsense")
    for told in (b"{nonsense", msgspec.json.encode({"stream_seq": sequence, "deliveries": 4})):
        await publish_acked(gateway.inside.connection, FAKE_ADVISORY, told)
    [letter] = await eventually(lambda: dead_letters(gateway), within=5, describe="a dead letter")
    assert (letter["reason"], letter["tag"], letter["num_delivered"]) == ("invalid_job", "nobody", 4)
    assert await eventually(lambda: queue_is_empty(gateway), within=5, describe="the queue is empty")

    async def dealt_with() -> bool:
        return await advisories(gateway) == 0

    await eventually(dealt_with, within=5, describe="both advisories are removed")


# Runs without an owner


async def test_a_cancel_that_no_worker_will_see_converges(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    run_id = await gateway.submit("noop")
    await DeadWorker(config).take()
    await cancel(gateway, run_id, reason="enough")
    run = await gateway.ends(run_id)
    assert (run["status"], run["reason"], run["cancel_reason"]) == ("CANCELLED", None, "enough")
    assert "worker dead" in run["error"]
    assert run["tasks"] == {"nothing": "CANCELLED"}
    assert await eventually(lambda: queue_is_empty(gateway), within=5, describe="its message is removed")
    assert await dead_letters(gateway) == []


async def test_a_cancel_of_an_unbegun_run_that_was_left_half_way_converges(gateway: RunningGateway) -> None:
    run_id = await gateway.submit("noop")
    run = await gateway.inside.runs.get_from_leader(run_id)
    assert run is not None
    wished = structs.replace(run.snapshot, status=RunStatus.CANCELLING, cancel_requested_at=time.time())
    await gateway.inside.runs.replace(wished, revision=run.revision)
    assert (await gateway.ends(run_id))["status"] == "CANCELLED"


async def test_a_cancelled_run_whose_deliveries_are_used_up_is_cancelled(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    run_id = await gateway.submit("noop")
    await DeadWorker(replace(config, consumer_max_deliver=1)).take()
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
    await DeadWorker(config).take()
    unlimited = await gateway.submit("noop")
    await DeadWorker(config).take()
    run = await gateway.ends(limited)
    assert (run["status"], run["reason"]) == ("FAILED", "timeout")
    assert "timeout_sec of 1 s" in run["error"]
    [letter] = await dead_letters(gateway)
    assert (letter["reason"], letter["run_id"]) == ("timeout", limited)
    assert await messages_in_queue(gateway) == 1
    assert (await gateway.get(unlimited))["status"] == "RUNNING"


@pytest.mark.usefixtures("_no_advisories")
async def test_time_without_nats_does_not_count_as_silence(
    config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    strict = replace(config, nats_url=own_nats.url, consumer_max_deliver=1, consumer_ack_wait_sec=3.0)
    async with running_gateway(strict) as gateway:
        run_id = await gateway.submit("noop")
        await DeadWorker(strict).take()
        sweeper = gateway.inside.sweeper
        await rounds(gateway, 1)
        [run] = [run async for group in sweeper._runs.groups() for run in group]
        own_nats.kill()
        await eventually(lambda: run.quiet_sec > 3.5, within=5, describe="the run would count as left alone")
        own_nats.start()
        await gateway.inside.connection.wait_ready(10)
        back_at = time.time()
        ended = await gateway.ends(run_id)
        assert ended["reason"] == "deliveries_exhausted"
        assert ended["end_time"] - back_at > 2.5


@pytest.mark.usefixtures("_no_advisories")
@pytest.mark.parametrize("written", ["before it is read", "after it is read"])
async def test_a_run_that_moves_on_is_not_touched(
    config: NatsBackendConfig, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    """Its owner writes in the moment between the decision and the act."""
    run_id = await gateway.submit("noop")
    await DeadWorker(replace(config, consumer_max_deliver=1)).take()
    store = gateway.inside.sweeper._mender.store
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
        await gateway.inside.runs.replace(woken, revision=run.revision)
        return await read(run_id) if written == "before it is read" else run

    monkeypatch.setattr(store, "get_from_leader", overtaken)
    run = await gateway.ends(run_id)
    # Only after its next silence.
    assert run["end_time"] - woken_at > config.consumer_ack_wait_sec
    assert (run["heartbeat_at"], run["reason"]) == (woken_at, "deliveries_exhausted")
    assert gateway.inside.sweeper.actions == {"deliveries_exhausted": 1}


@pytest.mark.usefixtures("_no_submissions")
async def test_what_cannot_be_read_does_not_stop_the_sweep(
    gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    connection = gateway.inside.connection
    await publish_acked(connection, "$KV.pyoco_runs.not-a-run", b"{nonsense")
    half = {"status": "PENDING", "heartbeat_at": 1.0, "tag": "default"}
    await publish_acked(connection, "$KV.pyoco_runs.half-a-run", msgspec.json.encode(half))
    broken = await store_without_job(gateway, workflow_yaml=YAML.encode())
    no_text = {"Pyoco-Kind": "source"}
    await publish_acked(connection, f"pyoco.journal.{broken.run_id}", b"\xff", no_text)
    job = await store_without_job(gateway)

    async def published() -> bool:
        return await messages_in_queue(gateway) == 1

    await eventually(published, within=10, describe="the run behind them gets its job")
    await rounds(gateway, 3)
    said = [getattr(record, "run_id", "") for record in caplog.records if record.levelno >= logging.WARNING]
    assert sorted(said) == sorted(["half-a-run", "not-a-run", broken.run_id])
    assert (await stored(gateway, job.run_id)).status is RunStatus.PENDING


# One gateway at a time


@pytest.mark.usefixtures("_no_submissions")
async def test_one_of_two_gateways_sweeps_and_the_other_follows_when_it_is_killed(
    config: NatsBackendConfig, nats_url: str, tmp_path: Path
) -> None:
    arguments = ("up", "--port", "0", "--nats-url", nats_url)
    with running(SERVER, *arguments, cwd=tmp_path, PYOCO_SWEEP_INTERVAL_SEC="0.2") as (first, _):
        await asyncio.to_thread(first.writes, "this gateway sweeps now")
        async with running_gateway(config) as gateway:
            sweeper = gateway.inside.sweeper
            until = time.monotonic() + 1.5

            async def stays_behind() -> bool:
                assert not sweeper.lease.held
                return time.monotonic() > until

            await eventually(stays_behind, within=5, describe="several rounds have passed")
            first.process.kill()
            await eventually(lambda: sweeper.lease.held, within=5, describe="the second one sweeps")
            job = await store_without_job(gateway)
            async with serving_worker(config):
                assert (await gateway.ends(job.run_id))["status"] == "COMPLETED"
            assert sweeper.actions == {"job_published": 1}


async def test_a_gateway_that_stops_lets_the_next_one_sweep_at_once(config: NatsBackendConfig) -> None:
    slow = replace(config, sweep_interval_sec=30.0)
    async with running_gateway(slow) as first:
        await eventually(lambda: first.inside.sweeper.lease.held, within=5, describe="the first one sweeps")
    async with running_gateway(slow) as second:
        await eventually(lambda: second.inside.sweeper.lease.held, within=2, describe="the next one sweeps")


async def test_a_gateway_that_lost_the_lease_stops_acting(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    sweeper = gateway.inside.sweeper
    await eventually(lambda: sweeper.lease.held, within=5, describe="it sweeps")
    context = gateway.inside.connection.client.jetstream()
    bucket = await context.key_value(config.lease_kv_bucket)
    await bucket.put("sweep", b'{"holder": "another", "ttl_sec": 600}')
    await eventually(lambda: not sweeper.lease.held, within=5, describe="it has noticed")
    job = await store_without_job(gateway)
    # A holder of the lease would end this one in its next round.
    given_up = await gateway.submit("noop")
    told = msgspec.json.encode({"stream_seq": 1, "deliveries": 1})
    await publish_acked(gateway.inside.connection, FAKE_ADVISORY, told)
    await rounds(gateway, 15)
    for run_id in (job.run_id, given_up):
        assert (await stored(gateway, run_id)).status is RunStatus.PENDING
    assert await messages_in_queue(gateway) == 1
    assert not sweeper.actions


@pytest.mark.usefixtures("_no_submissions")
async def test_an_outage_is_told_once_and_does_not_end_the_sweep(
    config: NatsBackendConfig, own_nats: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    quick = replace(config, nats_url=own_nats.url, nats_request_timeout_sec=0.3)
    async with running_gateway(quick) as gateway:
        sweeper = gateway.inside.sweeper
        await rounds(gateway, 1)
        with own_nats.paused():
            await rounds(gateway, 3)
        assert sum("the sweep pauses" in record.message for record in caplog.records) == 1
        job = await store_without_job(gateway)
        async with serving_worker(quick):
            assert (await gateway.ends(job.run_id))["status"] == "COMPLETED"
        assert sweeper.actions == {"job_published": 1}


# Retention


@pytest.fixture
async def forgetful(config: NatsBackendConfig) -> AsyncIterator[RunningGateway]:
    async with running_gateway(replace(config, run_retention_sec=1.5)) as gateway:
        yield gateway


async def remains(gateway: RunningGateway, run_id: str) -> dict[str, int]:
    """How many messages each stream has about the run."""
    context = gateway.inside.connection.client.jetstream()
    found = {}
    for stream in ("KV_pyoco_runs", "PYOCO_JOURNAL", "PYOCO_LOGS"):
        subjects = (await context.stream_info(stream, subjects_filter=">")).state.subjects or {}
        found[stream] = sum(count for subject, count in subjects.items() if subject.endswith(run_id))
    return {stream: count for stream, count in found.items() if count}


async def leave_traces(gateway: RunningGateway, run_id: str) -> None:
    entry = JournalEntry(key="t||0", task="t", attempt=1, started_at=1.0, ended_at=2.0)
    await Journal(gateway.inside.connection).append(run_id, entry)
    await gateway.inside.logs.publish(run_id, [LogLine(ts=1.0, stream="stdout", text="hello")])


async def test_an_old_run_is_removed_with_all_that_is_kept_about_it(
    config: NatsBackendConfig, forgetful: RunningGateway
) -> None:
    waiting = await forgetful.submit("noop", tag="nobody")
    async with serving_worker(config):
        old = await forgetful.submit("noop")
        await forgetful.ends(old)
    for run_id in (waiting, old):
        await leave_traces(forgetful, run_id)

    async def only_the_marker_is_left() -> bool:
        return await remains(forgetful, old) == {"KV_pyoco_runs": 1}

    await eventually(only_the_marker_is_left, within=10, describe="the old run is removed")
    assert (await forgetful.http.get(f"/runs/{old}")).status_code == 404
    assert forgetful.inside.sweeper.actions["removed"] == 1
    # As if ten minutes had passed.
    forgetful.inside.sweeper._retention._marker_sec = 0.0
    await leave_traces(forgetful, old)

    async def nothing_is_left() -> bool:
        return not await remains(forgetful, old)

    await eventually(nothing_is_left, within=10, describe="nothing of the old run is left")
    assert await remains(forgetful, waiting) == {"KV_pyoco_runs": 1, "PYOCO_JOURNAL": 1, "PYOCO_LOGS": 1}


async def test_a_run_is_removed_only_when_it_is_old_enough(
    config: NatsBackendConfig, forgetful: RunningGateway
) -> None:
    async with serving_worker(config):
        for _ in range(2):
            run = await forgetful.ends(await forgetful.submit("noop"))

            async def removed(run_id: str = run["run_id"]) -> float | None:
                answer = await forgetful.http.get(f"/runs/{run_id}")
                return time.time() if answer.status_code == 404 else None

            gone_at = await eventually(removed, within=10, describe="the run is removed")
            assert gone_at - run["end_time"] > 1.5


async def test_without_retention_every_run_is_kept(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(config):
        run_id = await gateway.submit("noop")
        await gateway.ends(run_id)
    gateway.inside.sweeper._retention._marker_sec = 0.0
    await rounds(gateway, 5)
    assert (await gateway.get(run_id))["status"] == "COMPLETED"
