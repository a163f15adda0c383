"""Pausing and draining workers from the gateway."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.broker.queue import intake as intake_module
from pyoco_server.broker.queue.intake import Intake
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.http_api.routes.workers import worker_routes as workers_api
from pyoco_server.runs.lifecycle.submission import new_job
from pyoco_server.worker import PyocoNatsWorker
from tests.flows import basics
from tests.integration.worker.conftest import OwnQueue
from tests.support.broker.worker_records import ask, worker, worker_is
from tests.support.places import FLOWS
from tests.support.programs import WORKER, running
from tests.support.waiting import LIMIT_SEC, NEVER_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Longer than an unpaused worker needs for a short run, many times over.
QUIET_SEC = 0.5


async def waiting_run(queue: OwnQueue, folder: Path) -> tuple[str, Path]:
    """A started run that ends when the file exists."""
    release, started = folder / "release", folder / "started"
    run_id = await queue.submit("waiting", params={"path": str(release), "started": str(started)})
    await eventually(started.exists, describe="the task has started")
    return run_id, release


async def consumer(queue: OwnQueue) -> Any:
    context = queue.gateway.inside.connection.client.jetstream()
    return await context.consumer_info("PYOCO_WORK", f"pyoco_worker_{queue.tag}")


async def is_paused(worker: PyocoNatsWorker) -> None:
    """Until it knows, it may take another run."""
    await eventually(lambda: worker._commands._paused, describe="the worker knows")


async def is_at_rest(queue: OwnQueue, paused: PyocoNatsWorker) -> None:
    """No pull of the worker is pending, and it holds no delivery."""
    # One that has not pulled yet, or not again, would look the same before it knows.
    await is_paused(paused)

    async def no_pulls() -> bool:
        info = await consumer(queue)
        return not info.num_waiting and not info.num_ack_pending

    await eventually(no_pulls, describe="nothing is pulled")


async def assert_stays_pending(queue: OwnQueue, *run_ids: str) -> None:
    await asyncio.sleep(QUIET_SEC)
    assert {(await queue.gateway.get(run_id))["status"] for run_id in run_ids} == {"PENDING"}


async def test_a_paused_worker_leaves_queued_runs_to_another_one(own_queue: OwnQueue) -> None:
    gateway = own_queue.gateway
    async with own_queue.worker("resting", concurrency=2) as resting:
        assert (await ask(gateway, "resting", paused=True))["paused"] is True
        await is_at_rest(own_queue, resting)
        run_ids = [await own_queue.submit("noop") for _ in range(5)]
        await assert_stays_pending(own_queue, *run_ids)
        async with own_queue.worker("other"):
            for run_id in run_ids:
                run = await gateway.ends(run_id)
                assert (run["worker_id"], run["attempt"]) == ("other", 1)


async def test_active_runs_continue_during_a_pause(own_queue: OwnQueue, tmp_path: Path) -> None:
    gateway = own_queue.gateway
    async with own_queue.worker("w") as serving:
        run_id, release = await waiting_run(own_queue, tmp_path)
        await ask(gateway, "w", paused=True)
        await is_paused(serving)
        later = await own_queue.submit("noop")
        release.touch()
        assert (await gateway.ends(run_id))["status"] == "COMPLETED"
        await worker_is(gateway, "w", state="IDLE", last_run_id=run_id)
        await assert_stays_pending(own_queue, later)
        assert (await ask(gateway, "w", paused=False))["paused"] is False
        assert (await gateway.ends(later))["status"] == "COMPLETED"
        # And then it is a worker like any other.
        for _ in range(3):
            assert (await own_queue.run("noop"))["status"] == "COMPLETED"


@pytest.mark.parametrize("by", ["hint", "heartbeat"])
async def test_a_pause_is_applied_by_its_hint_or_by_a_heartbeat(
    own_queue: OwnQueue, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    async def lost(*_: object) -> None: ...

    gateway, settings = own_queue.gateway, dict[str, Any]()
    if by == "hint":
        settings["worker_heartbeat_interval_sec"] = NEVER_SEC
        settings["worker_disconnect_timeout_sec"] = 2 * NEVER_SEC
    else:
        monkeypatch.setattr(workers_api, "wake_worker", lost)
    async with own_queue.worker(by, **settings) as paused:
        await ask(gateway, by, paused=True)
        await is_at_rest(own_queue, paused)
        run_id = await own_queue.submit("noop")
        await assert_stays_pending(own_queue, run_id)
        await ask(gateway, by, paused=False)
        assert (await gateway.ends(run_id))["status"] == "COMPLETED"


async def test_a_worker_that_starts_paused_takes_no_runs_and_can_be_stopped(own_queue: OwnQueue) -> None:
    gateway = own_queue.gateway
    async with asyncio.timeout(LIMIT_SEC), own_queue.worker("early") as paused:
        await ask(gateway, "early", paused=True)
        await is_at_rest(own_queue, paused)
    stopped = await worker(gateway, "early")
    assert (stopped["state"], stopped["stop_reason"]) == ("STOPPED_GRACEFUL", "graceful_shutdown")
    run_id = await own_queue.submit("noop")
    async with own_queue.worker("early"):
        await worker_is(gateway, "early", state="IDLE", paused=True)
        await assert_stays_pending(own_queue, run_id)
        await ask(gateway, "early", paused=False)
        assert (await gateway.ends(run_id))["attempt"] == 1


async def test_repeated_pauses_lose_no_run(own_queue: OwnQueue) -> None:
    async with own_queue.worker("pausing", concurrency=2):
        run_ids = []
        for number in range(12):
            run_ids += [await own_queue.submit("noop") for _ in range(5)]
            await ask(own_queue.gateway, "pausing", paused=number % 2 == 0)
        for run_id in run_ids:
            assert (await own_queue.gateway.ends(run_id))["status"] == "COMPLETED"


async def test_a_drained_worker_process_exits_after_its_run(own_queue: OwnQueue, tmp_path: Path) -> None:
    gateway = own_queue.gateway
    arguments = ("--flows", str(FLOWS), "--worker-id", "program", "--tag", own_queue.tag)
    nats_url = gateway.inside.config.nats_url
    with running(WORKER, *arguments, "--nats-url", nats_url, cwd=tmp_path) as (program, _):
        run_id, release = await waiting_run(own_queue, tmp_path)
        # The record is stored beside the run, which may be the faster one.
        await worker_is(gateway, "program", state="RUNNING")
        draining = await ask(gateway, "program", drain=True)
        assert (draining["draining"], draining["state"]) == (True, "RUNNING")
        await asyncio.to_thread(program.writes, "draining")
        later = await own_queue.submit("noop")
        assert program.process.poll() is None
        release.touch()
        assert await asyncio.to_thread(program.end) == 0
    run = await gateway.get(run_id)
    assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
    assert (await gateway.get(later))["status"] == "PENDING"
    drained = await worker(gateway, "program")
    assert (drained["state"], drained["stop_reason"]) == ("STOPPED_GRACEFUL", "drained")
    assert drained["draining"] is False
    assert drained["stopped_at"] is not None


async def test_a_drain_does_not_apply_to_the_next_worker_of_the_same_id(own_queue: OwnQueue) -> None:
    gateway = own_queue.gateway
    async with own_queue.worker("drained") as drained:
        await ask(gateway, "drained", drain=True)
        await eventually(lambda: drained.drain_requested, describe="the worker knows")
    assert (await worker(gateway, "drained"))["stop_reason"] == "drained"
    async with own_queue.worker("drained") as successor:
        assert (await own_queue.run("noop"))["status"] == "COMPLETED"
        record = await worker_is(gateway, "drained", state="IDLE")
        assert (record["draining"], record["stop_reason"]) == (False, None)
        assert successor.drain_requested is False


async def test_commands_apply_to_an_embedded_worker(own_queue: OwnQueue) -> None:
    gateway = own_queue.gateway
    async with own_queue.idle_worker(basics.noop_flow, "embedded") as embedded:
        await ask(gateway, "embedded", paused=True)
        await is_paused(embedded)
        run_id = await own_queue.submit("noop")
        assert await embedded.run_once(timeout=QUIET_SEC) is None
        await ask(gateway, "embedded", paused=False)
        await eventually(lambda: not embedded._commands._paused, describe="the worker knows")
        assert await embedded.run_once(timeout=LIMIT_SEC) == run_id
        await ask(gateway, "embedded", drain=True)
        await eventually(lambda: embedded.drain_requested, describe="the worker knows")
        await own_queue.submit("noop")
        assert await embedded.run_once(timeout=QUIET_SEC) is None
    assert (await worker(gateway, "embedded"))["stop_reason"] == "drained"


# The intake alone


async def started_intake(queue: OwnQueue, *more_tags: str) -> Intake:
    connection = queue.gateway.inside.connection
    intake = Intake(connection, [queue.tag, *more_tags])
    await intake.start()
    return intake


async def queue_jobs(queue: OwnQueue, count: int) -> None:
    work_queue = WorkQueue(queue.gateway.inside.connection)
    for _ in range(count):
        await work_queue.publish(new_job(flow_name="f", tag=queue.tag), run_revision=1)


async def test_prefetched_deliveries_are_returned_at_once(
    own_queue: OwnQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By the pause and nothing else: a held delivery goes back soon anyway, and after AckWait.
    monkeypatch.setattr(intake_module, "_MAINTENANCE_SEC", 600.0)
    intake = await started_intake(own_queue)
    await queue_jobs(own_queue, 6)
    taken = [await intake.take(ahead=True) for _ in range(2)]
    await eventually(lambda: bool(intake._tags[0].buffer), describe="some is held")
    await intake.pause()
    assert not intake._tags[0].buffer
    other = await started_intake(own_queue)
    async with asyncio.timeout(LIMIT_SEC):
        taken += [await other.take() for _ in range(4)]
    assert len({delivery.stream_seq for delivery in taken}) == 6
    await other.close()
    await intake.close()


async def test_a_pending_pull_takes_no_job_during_a_pause(own_queue: OwnQueue) -> None:
    async def pull_waits_at_the_server() -> bool:
        return bool((await consumer(own_queue)).num_waiting == 1)

    intake = await started_intake(own_queue)
    slot = asyncio.create_task(intake.take(ahead=True))
    await eventually(pull_waits_at_the_server, describe="a pull waits at the server")
    await intake.pause()
    await queue_jobs(own_queue, 1)
    other = await started_intake(own_queue)
    async with asyncio.timeout(LIMIT_SEC):
        delivery = await other.take()
    # Not returned by the paused one, which would have cost a delivery.
    assert delivery.number == 1
    assert not slot.done()
    intake.resume()
    await queue_jobs(own_queue, 1)
    async with asyncio.timeout(LIMIT_SEC):
        assert (await slot).number == 1
    await other.close()
    await intake.close()


@pytest.mark.parametrize("more_tags", [[], ["gpu"]], ids=["one tag", "two tags"])
async def test_a_pause_before_the_first_slot_ends_later(own_queue: OwnQueue, more_tags: list[str]) -> None:
    intake = await started_intake(own_queue, *more_tags)
    await intake.pause()
    await queue_jobs(own_queue, 2)
    slots = [asyncio.create_task(intake.take(ahead=True)) for _ in range(2)]
    done, _ = await asyncio.wait(slots, timeout=QUIET_SEC)
    assert not done
    assert (await consumer(own_queue)).delivered.consumer_seq == 0
    intake.resume()
    async with asyncio.timeout(LIMIT_SEC):
        assert len({(await slot).stream_seq for slot in slots}) == 2
    await intake.close()
