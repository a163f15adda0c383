"""Pausing and draining workers from the gateway."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.queue import intake as intake_module
from pyoco_server.broker.queue.intake import Intake
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.routes import worker_routes as workers_api
from pyoco_server.runs.lifecycle.submission import new_job
from pyoco_server.worker import PyocoNatsWorker
from tests.flows import basics
from tests.support.broker.connections import connected
from tests.support.broker.worker_records import ask, worker, worker_is
from tests.support.places import FLOWS
from tests.support.programs import WORKER, running
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import idle_worker, serving_worker
from tests.support.waiting import LIMIT_SEC, NEVER_SEC, eventually

# Longer than an unpaused worker needs for a short run, many times over.
QUIET_SEC = 0.5


async def waiting_run(gateway: RunningGateway, folder: Path) -> tuple[str, Path]:
    """A started run that ends when the file exists."""
    release, started = folder / "release", folder / "started"
    run_id = await gateway.submit("waiting", params={"path": str(release), "started": str(started)})
    await eventually(started.exists, describe="the task has started")
    return run_id, release


async def is_at_rest(gateway: RunningGateway, paused: PyocoNatsWorker) -> None:
    """No pull of the worker is pending, and it holds no delivery."""
    # One that has not pulled yet, or not again, would look the same before it knows.
    await eventually(lambda: paused._commands._paused, describe="the worker knows")

    async def no_pulls() -> bool:
        info = await gateway.inside.connection.client.jetstream().consumer_info(
            gateway.inside.config.work_stream, "pyoco_worker_default"
        )
        return not info.num_waiting and not info.num_ack_pending

    await eventually(no_pulls, describe="nothing is pulled")


async def test_a_paused_worker_leaves_queued_runs_to_another_one(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(config, worker_id="resting", concurrency=2) as resting:
        assert (await ask(gateway, "resting", paused=True))["paused"] is True
        await is_at_rest(gateway, resting)
        run_ids = [await gateway.submit("noop") for _ in range(5)]
        await asyncio.sleep(QUIET_SEC)
        assert {(await gateway.get(run_id))["status"] for run_id in run_ids} == {"PENDING"}
        async with serving_worker(config, worker_id="other"):
            for run_id in run_ids:
                assert (await gateway.ends(run_id))["worker_id"] == "other"
        for run_id in run_ids:
            assert (await gateway.get(run_id))["attempt"] == 1


async def test_active_runs_continue_during_a_pause(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    async with serving_worker(config) as serving:
        run_id, release = await waiting_run(gateway, tmp_path)
        await ask(gateway, paused=True)
        # Until it knows, it may take another run.
        await eventually(lambda: serving._commands._paused, describe="the worker knows")
        later = await gateway.submit("noop")
        release.touch()
        assert (await gateway.ends(run_id))["status"] == "COMPLETED"
        await worker_is(gateway, state="IDLE", last_run_id=run_id)
        await asyncio.sleep(QUIET_SEC)
        assert (await gateway.get(later))["status"] == "PENDING"
        assert (await ask(gateway, paused=False))["paused"] is False
        assert (await gateway.ends(later))["status"] == "COMPLETED"
        # And then it is a worker like any other.
        for _ in range(3):
            assert (await gateway.ends(await gateway.submit("noop")))["status"] == "COMPLETED"


@pytest.mark.parametrize("by", ["hint", "heartbeat"])
async def test_a_pause_is_applied_by_its_hint_or_by_a_heartbeat(
    config: NatsBackendConfig, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    async def lost(*_: object) -> None: ...

    if by == "hint":
        slow: dict[str, Any] = {"worker_heartbeat_interval_sec": NEVER_SEC}
        config = replace(config, worker_disconnect_timeout_sec=2 * NEVER_SEC, **slow)
    else:
        monkeypatch.setattr(workers_api, "wake_worker", lost)
    async with serving_worker(config) as paused:
        await ask(gateway, paused=True)
        await is_at_rest(gateway, paused)
        run_id = await gateway.submit("noop")
        await asyncio.sleep(QUIET_SEC)
        assert (await gateway.get(run_id))["status"] == "PENDING"
        await ask(gateway, paused=False)
        assert (await gateway.ends(run_id))["status"] == "COMPLETED"


async def test_a_worker_that_starts_paused_takes_no_runs(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(config):
        await ask(gateway, paused=True)
    run_id = await gateway.submit("noop")
    async with serving_worker(config):
        await worker_is(gateway, state="IDLE", paused=True)
        await asyncio.sleep(QUIET_SEC)
        assert (await gateway.get(run_id))["status"] == "PENDING"
        await ask(gateway, paused=False)
        assert (await gateway.ends(run_id))["attempt"] == 1


async def test_repeated_pauses_lose_no_run(config: NatsBackendConfig, gateway: RunningGateway) -> None:
    async with serving_worker(config, concurrency=2):
        run_ids = []
        for number in range(12):
            run_ids += [await gateway.submit("noop") for _ in range(5)]
            await ask(gateway, paused=number % 2 == 0)
        for run_id in run_ids:
            assert (await gateway.ends(run_id))["status"] == "COMPLETED"


async def test_a_paused_worker_can_be_stopped(config: NatsBackendConfig, gateway: RunningGateway) -> None:
    async with asyncio.timeout(LIMIT_SEC), serving_worker(config) as paused:
        await ask(gateway, paused=True)
        await is_at_rest(gateway, paused)
    told = await worker(gateway)
    assert (told["state"], told["stop_reason"]) == ("STOPPED_GRACEFUL", "graceful_shutdown")


async def test_a_drained_worker_process_exits_after_its_run(
    gateway: RunningGateway, nats_url: str, tmp_path: Path
) -> None:
    arguments = ("--flows", str(FLOWS), "--worker-id", "w-1", "--nats-url", nats_url)
    with running(WORKER, *arguments, cwd=tmp_path) as (program, _):
        run_id, release = await waiting_run(gateway, tmp_path)
        # The record is stored beside the run, which may be the faster one.
        await worker_is(gateway, "w-1", state="RUNNING")
        told = await ask(gateway, "w-1", drain=True)
        assert (told["draining"], told["state"]) == (True, "RUNNING")
        await asyncio.to_thread(program.writes, "draining")
        later = await gateway.submit("noop")
        assert program.process.poll() is None
        release.touch()
        assert await asyncio.to_thread(program.end) == 0
    run = await gateway.get(run_id)
    assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
    assert (await gateway.get(later))["status"] == "PENDING"
    told = await worker(gateway, "w-1")
    assert (told["state"], told["stop_reason"]) == ("STOPPED_GRACEFUL", "drained")
    assert told["draining"] is False
    assert told["stopped_at"] is not None


async def test_a_drain_does_not_apply_to_the_next_worker_of_the_same_id(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(config) as drained:
        await ask(gateway, drain=True)
        await eventually(lambda: drained.drain_requested, describe="the worker knows")
    assert (await worker(gateway))["stop_reason"] == "drained"
    async with serving_worker(config) as successor:
        assert (await gateway.ends(await gateway.submit("noop")))["status"] == "COMPLETED"
        told = await worker_is(gateway, state="IDLE")
        assert (told["draining"], told["stop_reason"]) == (False, None)
        assert successor.drain_requested is False


async def test_commands_apply_to_an_embedded_worker(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with idle_worker(config, basics.noop_flow) as embedded:
        await ask(gateway, paused=True)
        await eventually(lambda: embedded._commands._paused, describe="the worker knows")
        run_id = await gateway.submit("noop")
        assert await embedded.run_once(timeout=QUIET_SEC) is None
        await ask(gateway, paused=False)
        await eventually(lambda: not embedded._commands._paused, describe="the worker knows")
        assert await embedded.run_once(timeout=LIMIT_SEC) == run_id
        await ask(gateway, drain=True)
        await eventually(lambda: embedded.drain_requested, describe="the worker knows")
        await gateway.submit("noop")
        assert await embedded.run_once(timeout=QUIET_SEC) is None
    assert (await worker(gateway))["stop_reason"] == "drained"


# The intake alone


async def queue_jobs(connection: Connection, count: int) -> None:
    queue = WorkQueue(connection)
    for _ in range(count):
        await queue.publish(new_job(flow_name="f", tag="default"), run_revision=1)


async def consumer(connection: Connection) -> Any:
    return await connection.client.jetstream().consumer_info("PYOCO_WORK", "pyoco_worker_default")


async def test_prefetched_deliveries_are_returned_at_once(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By the pause and nothing else: a held delivery goes back soon anyway, and after AckWait.
    monkeypatch.setattr(intake_module, "_MAINTENANCE_SEC", 600.0)
    async with connected(replace(config, consumer_ack_wait_sec=NEVER_SEC)) as connection:
        await _goes_back_at_once(connection)


async def _goes_back_at_once(connection: Connection) -> None:
    intake = Intake(connection, WorkQueue(connection), ["default"])
    await intake.start()
    await queue_jobs(connection, 6)
    taken = [await intake.take(ahead=True) for _ in range(2)]
    await eventually(lambda: bool(intake._tags[0].buffer), describe="some is held")
    await intake.pause()
    assert not intake._tags[0].buffer
    other = Intake(connection, WorkQueue(connection), ["default"])
    await other.start()
    async with asyncio.timeout(LIMIT_SEC):
        taken += [await other.take() for _ in range(4)]
    assert {delivery.stream_seq for delivery in taken} == {1, 2, 3, 4, 5, 6}
    await other.close()
    await intake.close()


async def test_a_pending_pull_takes_no_job_during_a_pause(connection: Connection) -> None:
    intake = Intake(connection, WorkQueue(connection), ["default"])
    await intake.start()
    slot = asyncio.create_task(intake.take(ahead=True))
    await _until_waiting(connection, 1)
    await intake.pause()
    await queue_jobs(connection, 1)
    other = Intake(connection, WorkQueue(connection), ["default"])
    await other.start()
    async with asyncio.timeout(LIMIT_SEC):
        delivery = await other.take()
    # Not returned by the paused one, which would have cost a delivery.
    assert delivery.number == 1
    assert not slot.done()
    intake.resume()
    await queue_jobs(connection, 1)
    async with asyncio.timeout(LIMIT_SEC):
        assert (await slot).number == 1
    await other.close()
    await intake.close()


async def _until_waiting(connection: Connection, pulls: int) -> None:
    async def waiting() -> bool:
        return bool((await consumer(connection)).num_waiting == pulls)

    await eventually(waiting, describe=f"{pulls} pulls wait at the server")


@pytest.mark.parametrize("tags", [["default"], ["default", "gpu"]])
async def test_a_pause_before_the_first_slot_ends_later(connection: Connection, tags: list[str]) -> None:
    intake = Intake(connection, WorkQueue(connection), tags)
    await intake.start()
    await intake.pause()
    await queue_jobs(connection, 2)
    slots = [asyncio.create_task(intake.take(ahead=True)) for _ in range(2)]
    done, _ = await asyncio.wait(slots, timeout=QUIET_SEC)
    assert not done
    assert (await consumer(connection)).delivered.consumer_seq == 0
    intake.resume()
    async with asyncio.timeout(LIMIT_SEC):
        assert {(await slot).stream_seq for slot in slots} == {1, 2}
    await intake.close()
