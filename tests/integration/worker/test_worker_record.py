"""The record of a worker from start to stop, and of a worker that is disconnected or hangs."""

import asyncio
import signal
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from pyoco_server.records.workers.worker_models import WorkerRecord, WorkerState
from tests.integration.worker.conftest import OwnQueue
from tests.support.inspection import started_pid, worker_record
from tests.support.places import FLOWS
from tests.support.programs import WORKER, running
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_worker_is_registered_from_start_to_stop(
    shared_gateway: RunningGateway, tmp_path: Path
) -> None:
    gateway, release = shared_gateway, tmp_path / "release"
    async with serving_worker(gateway.inside.config, worker_id="w-1", tags=["cpu", "default"]):
        idle = await worker_record(gateway, "w-1")
        assert (idle.state, idle.tags, idle.slots) == (WorkerState.IDLE, ["cpu", "default"], 1)
        run_id = await gateway.submit("waiting", params={"path": str(release)})

        async def state_is(state: WorkerState) -> WorkerRecord | None:
            record = await worker_record(gateway, "w-1")
            return record if record.state is state else None

        busy = await eventually(lambda: state_is(WorkerState.RUNNING), describe="RUNNING")
        assert busy.current_run_id == run_id
        assert busy.instance_id == idle.instance_id

        async def seen_again() -> bool:
            return (await worker_record(gateway, "w-1")).last_seen_at > busy.last_seen_at

        await eventually(seen_again, describe="the worker is seen again while it runs")
        release.touch()
        await gateway.ends(run_id)
        after = await eventually(lambda: state_is(WorkerState.IDLE), describe="IDLE again")
        assert (after.last_run_id, after.last_run_status) == (run_id, "COMPLETED")
        assert after.current_run_id is None
    stopped = await worker_record(gateway, "w-1")
    assert stopped.state is WorkerState.STOPPED_GRACEFUL
    assert stopped.stop_reason == "graceful_shutdown"
    assert stopped.stopped_at is not None


async def test_a_stopped_worker_process_is_recorded_as_stopped(
    shared_gateway: RunningGateway, tmp_path: Path
) -> None:
    arguments = ("--worker-id", "stopped", "--nats-url", shared_gateway.inside.config.nats_url)
    with running(WORKER, *arguments, cwd=tmp_path) as (worker, _):
        assert (await worker_record(shared_gateway, "stopped")).state is WorkerState.IDLE
        worker.send(signal.SIGTERM)
        assert await asyncio.to_thread(worker.end) == 0
    record = await worker_record(shared_gateway, "stopped")
    assert (record.state, record.stop_reason) == (WorkerState.STOPPED_GRACEFUL, "graceful_shutdown")


async def test_a_killed_worker_is_disconnected_and_its_record_stays(
    own_queue: OwnQueue, tmp_path: Path
) -> None:
    marker, gateway = tmp_path / "started", own_queue.gateway
    config = gateway.inside.config
    arguments = ("--flows", str(FLOWS), "--worker-id", "killed", "--tag", own_queue.tag)
    settings = {"PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "0.2"}
    run_id = ""

    async def is_seen_as_alive(expected: bool) -> bool:
        return (await gateway.get(run_id))["worker_alive"] is expected

    with running(WORKER, *arguments, "--nats-url", config.nats_url, cwd=tmp_path, **settings) as (worker, _):
        params = {"path": str(tmp_path / "x"), "started": str(marker)}
        run_id = await own_queue.submit("waiting", params=params)
        await started_pid(marker)
        # A late heartbeat counts as missing.
        await eventually(lambda: is_seen_as_alive(True), describe="its worker is alive")
        worker.process.kill()
    timeout_sec = 1.0
    async with running_gateway(replace(config, worker_disconnect_timeout_sec=timeout_sec)) as gateway:
        await eventually(lambda: is_seen_as_alive(False), describe="its worker is not alive")
        record = await worker_record(gateway, "killed")
        assert record.observed_state(disconnect_timeout_sec=timeout_sec) is WorkerState.DISCONNECTED


async def test_last_progress_distinguishes_a_hanging_run_from_a_dead_worker(
    own_queue: OwnQueue, tmp_path: Path
) -> None:
    one, other, gateway = tmp_path / "one", tmp_path / "other", own_queue.gateway

    async def record_since(moment: float) -> WorkerRecord:
        async def written() -> WorkerRecord | None:
            record = await worker_record(gateway, "hanging")
            return record if record.last_heartbeat_at > moment else None

        return await eventually(written, describe="a heartbeat of the worker")

    async with own_queue.worker("hanging"):
        run_id = await own_queue.submit("holding-twice", params={"one": str(one), "other": str(other)})
        progress: list[float | None] = []
        for task, release in (("hold", one), ("hold_again", other)):
            await gateway.task_runs(run_id, task)
            hanging = await record_since(time.time())
            later = await record_since(hanging.last_heartbeat_at)
            assert later.last_progress_at == hanging.last_progress_at
            progress.append(later.last_progress_at)
            release.touch()
        await gateway.ends(run_id)
        first, second = progress
        assert first is not None
        assert second is not None
        assert first < second


async def test_a_hidden_worker_keeps_the_flag(own_queue: OwnQueue) -> None:
    gateway = own_queue.gateway

    async def record() -> WorkerRecord:
        return await worker_record(gateway, "hidden")

    async with own_queue.worker("hidden"):
        context = gateway.inside.connection.client.jetstream()
        bucket = await context.key_value(gateway.inside.config.workers_kv_bucket)
        hidden = msgspec.structs.replace(await record(), hidden=True)
        await bucket.put("hidden", msgspec.json.encode(hidden))

        async def written_since() -> bool:
            return (await record()).last_seen_at > hidden.last_seen_at

        await eventually(written_since, describe="the worker wrote its record")
        assert (await record()).hidden is True
    async with own_queue.worker("hidden"):
        assert (await record()).hidden is True
