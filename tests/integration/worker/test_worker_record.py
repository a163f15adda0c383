"""The record of a worker from start to stop, and of a worker that is disconnected or hangs."""

import asyncio
import signal
import time
from dataclasses import replace
from pathlib import Path

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.models import WorkerRecord, WorkerState
from tests.support.inspection import started_pid, worker_record
from tests.support.places import FLOWS
from tests.support.programs import WORKER, running
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually


async def test_a_worker_is_registered_from_start_to_stop(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    async with serving_worker(config, worker_id="w-1", tags=["cpu", "default"]):
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
    gateway: RunningGateway, nats_url: str, tmp_path: Path
) -> None:
    with running(WORKER, "--worker-id", "w-1", "--nats-url", nats_url, cwd=tmp_path) as (worker, _):
        assert (await worker_record(gateway, "w-1")).state is WorkerState.IDLE
        worker.send(signal.SIGTERM)
        assert await asyncio.to_thread(worker.end) == 0
    record = await worker_record(gateway, "w-1")
    assert (record.state, record.stop_reason) == (WorkerState.STOPPED_GRACEFUL, "graceful_shutdown")


async def test_a_killed_worker_is_disconnected_and_its_record_stays(
    config: NatsBackendConfig, gateway: RunningGateway, nats_url: str, tmp_path: Path
) -> None:
    marker = tmp_path / "started"
    arguments = ("--flows", str(FLOWS), "--worker-id", "w-1", "--nats-url", nats_url)
    settings = {"PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "0.2"}
    run_id = ""

    async def is_seen_as_alive(expected: bool) -> bool:
        return (await gateway.get(run_id))["worker_alive"] is expected

    with running(WORKER, *arguments, cwd=tmp_path, **settings) as (worker, _):
        run_id = await gateway.submit("waiting", params={"path": str(tmp_path / "x"), "started": str(marker)})
        await started_pid(marker)
        # A late heartbeat counts as missing.
        await eventually(lambda: is_seen_as_alive(True), describe="its worker is alive")
        worker.process.kill()
    timeout_sec = 1.0
    async with running_gateway(replace(config, worker_disconnect_timeout_sec=timeout_sec)) as gateway:
        await eventually(lambda: is_seen_as_alive(False), describe="its worker is not alive")
        record = await worker_record(gateway, "w-1")
        assert record.observed_state(disconnect_timeout_sec=timeout_sec) is WorkerState.DISCONNECTED


async def test_last_progress_distinguishes_a_hanging_run_from_a_dead_worker(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"

    async def record_since(moment: float) -> WorkerRecord:
        async def written() -> WorkerRecord | None:
            record = await worker_record(gateway)
            return record if record.last_heartbeat_at > moment else None

        return await eventually(written, describe="a heartbeat of the worker")

    async with serving_worker(config):
        run_id = await gateway.submit("holding-twice", params={"one": str(one), "other": str(other)})
        progress: list[float | None] = []
        for task, release in (("hold", one), ("hold_again", other)):

            async def task_runs(task: str = task) -> bool:
                return bool((await gateway.get(run_id))["tasks"].get(task) == "RUNNING")

            await eventually(task_runs, describe=f"{task} runs")
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


async def test_a_hidden_worker_keeps_the_flag(config: NatsBackendConfig, gateway: RunningGateway) -> None:
    async with serving_worker(config):
        context = gateway.inside.connection.client.jetstream()
        bucket = await context.key_value(config.workers_kv_bucket)
        hidden = msgspec.structs.replace(await worker_record(gateway), hidden=True)
        await bucket.put("worker", msgspec.json.encode(hidden))

        async def written_since() -> bool:
            return (await worker_record(gateway)).last_seen_at > hidden.last_seen_at

        await eventually(written_since, describe="the worker wrote its record")
        assert (await worker_record(gateway)).hidden is True
    async with serving_worker(config):
        assert (await worker_record(gateway)).hidden is True


def test_a_silent_worker_is_disconnected_and_a_stopped_one_stays_stopped() -> None:
    record = WorkerRecord(
        worker_id="w",
        instance_id="i",
        state=WorkerState.IDLE,
        last_seen_at=100,
        last_heartbeat_at=100,
        tags=[],
    )
    assert record.observed_state(disconnect_timeout_sec=20, now=119) is WorkerState.IDLE
    assert record.observed_state(disconnect_timeout_sec=20, now=121) is WorkerState.DISCONNECTED
    record.state = WorkerState.STOPPED_GRACEFUL
    assert record.observed_state(disconnect_timeout_sec=20, now=999) is WorkerState.STOPPED_GRACEFUL
