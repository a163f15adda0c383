"""The worker under load and faults: slots, crashes, large outputs, changed flows."""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.models import WorkerRecord, decode_job
from pyoco_server.worker.executors.thread_executor import ThreadExecutor
from pyoco_server.worker.session.presence import Presence
from pyoco_server.worker.session.run_keeper import RunKeeper
from pyoco_server.worker.session.run_questions import RunQuestions
from tests.flows import basics
from tests.support.inspection import claimed_by, dead_letters, queue_is_empty, started_pid, worker_record
from tests.support.processes import is_alive
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import idle_worker, serving_worker
from tests.support.waiting import LIMIT_SEC, eventually


async def test_four_slots_run_four_runs_at_once_and_one_crash_fails_one(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    async with serving_worker(config, concurrency=4):
        markers = [tmp_path / f"started-{number}" for number in range(4)]
        run_ids = [
            await gateway.submit("waiting", params={"path": str(release), "started": str(marker)})
            for marker in markers
        ]
        pids = [await started_pid(marker) for marker in markers]
        assert len(set(pids)) == 4
        record = await eventually(lambda: _busy(gateway, 4), describe="the registry shows four busy slots")
        assert set(record.current_run_ids) == set(run_ids)

        os.kill(pids[0], signal.SIGKILL)
        crashed = await gateway.ends(run_ids[0])
        assert (crashed["status"], crashed["reason"]) == ("FAILED", "executor_crashed")
        assert "SIGKILL" in crashed["error"]
        release.touch()
        for run_id in run_ids[1:]:
            assert (await gateway.ends(run_id))["status"] == "COMPLETED"
        # The slot that lost its executor has another.
        again = [await gateway.submit("noop") for _ in range(8)]
        assert {(await gateway.ends(run_id))["status"] for run_id in again} == {"COMPLETED"}


async def _busy(gateway: RunningGateway, slots: int) -> WorkerRecord | None:
    record = await worker_record(gateway)
    return record if record.slots_busy == slots else None


@pytest.mark.parametrize(("flow", "says"), [("crashing", "SIGSEGV"), ("vanishing", "exited with code 7")])
async def test_a_crash_is_reported_with_its_cause(
    config: NatsBackendConfig, gateway: RunningGateway, flow: str, says: str
) -> None:
    async with serving_worker(config):
        run = await gateway.ends(await gateway.submit(flow))
        assert (run["status"], run["reason"]) == ("FAILED", "executor_crashed")
        assert says in run["error"]
        if flow == "crashing":
            assert "in crash" in run["error"]
        assert (await gateway.ends(await gateway.submit("noop")))["status"] == "COMPLETED"
        [letter] = await dead_letters(gateway)
        assert letter["reason"] == "executor_crashed"
        assert await eventually(lambda: queue_is_empty(gateway), describe="the queue is empty")


async def test_a_run_of_three_times_ack_wait_is_executed_once(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    counter = tmp_path / "executions"
    # With more room than it needs: a worker that stands still for longer than AckWait does lose its runs.
    short = replace(config, consumer_ack_wait_sec=2.0, ack_progress_interval_sec=0.3)
    async with serving_worker(short, concurrency=2):
        run_id = await gateway.submit("counting", params={"counter": str(counter), "seconds": 6.2})
        run = await gateway.ends(run_id)
        assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
    assert counter.read_text() == "executed\n"


async def test_holding_the_gil_for_long_does_not_lose_the_run(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    short = replace(config, consumer_ack_wait_sec=2.0, ack_progress_interval_sec=0.3)
    async with serving_worker(short):
        run = await gateway.ends(await gateway.submit("deaf", params={"seconds": 3.5}))
        assert (run["status"], run["attempt"]) == ("COMPLETED", 1)


async def test_a_large_output_ends_in_a_completed_run_with_a_truncated_record(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(config):
        run = await gateway.ends(await gateway.submit("large", params={"size": 2 * 1024 * 1024}))
        assert run["status"] == "COMPLETED"
        assert run["task_records_truncated"] is True
        record = run["task_records"]["large"]
        assert record["truncated"] == ["output"]
        assert record["output"]["bytes"] == 2 * 1024 * 1024 + 2
        assert await eventually(lambda: queue_is_empty(gateway), describe="the message is acked")


async def test_many_tasks_with_values_still_fit(config: NatsBackendConfig, gateway: RunningGateway) -> None:
    async with serving_worker(replace(config, max_run_snapshot_bytes=16_384)):
        run = await gateway.ends(await gateway.submit("wide"))
        assert run["status"] == "COMPLETED"
        assert len(run["tasks"]) == 40
        assert run["task_records_truncated"] is True


async def test_a_snapshot_never_exceeds_the_limit_of_nats(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    """Records of 2 MB in all, where the server takes messages of 1 MB."""
    async with serving_worker(replace(config, max_run_snapshot_bytes=16 * 1024 * 1024)):
        run = await gateway.ends(await gateway.submit("wide", params={"width": 30_000}))
        assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
        assert len(run["tasks"]) == 40
        assert run["task_records_truncated"] is True


async def test_changed_flows_are_used_by_the_next_run_without_a_restart(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    folder = tmp_path / "flows"
    folder.mkdir()

    def write(answer: str) -> None:
        lines = [
            "from pyoco import Flow, task",
            "@task",
            f"def answer() -> str: return {answer!r}",
            "flow = Flow(name='asked') >> answer",
        ]
        (folder / "asked_flow.py").write_text("\n".join(lines))

    async def answered() -> str:
        run = await gateway.ends(await gateway.submit("asked"))
        return str(run["task_records"]["answer"]["output"])

    write("old")
    async with serving_worker(config, flows=folder):
        assert await answered() == "old"
        write("new and different")

        async def is_new() -> bool:
            return await answered() == "new and different"

        await eventually(is_new, describe="the new code is used")


@pytest.mark.parametrize("then", ["crash", "return"])
async def test_subprocesses_of_a_task_end_with_its_executor(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path, then: str
) -> None:
    pid_file = tmp_path / "pid"
    async with serving_worker(config):
        run_id = await gateway.submit("parent", params={"pid_file": str(pid_file), "then": then})
        run = await gateway.ends(run_id)
        assert run["status"] == ("FAILED" if then == "crash" else "COMPLETED")
        assert (await gateway.ends(await gateway.submit("noop")))["status"] == "COMPLETED"
    pid = int(pid_file.read_text())
    await eventually(lambda: not is_alive(pid), describe="the grandchild has ended")


async def test_a_run_that_was_redelivered_to_its_own_worker_ends_twice_in_the_record(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    """After an outage longer than AckWait: the first slot loses the run to the second, and both end."""
    presence = Presence(gateway.inside.connection, worker_id="w", tags=["default"], slots=2)
    await presence.start()
    for _ in range(2):
        presence.began("run")
    for status in (None, "COMPLETED"):
        presence.ended("run", status)
    await presence.stop("graceful_shutdown")
    record = await worker_record(gateway, "w")
    assert (record.last_run_id, record.last_run_status, record.slots_busy) == ("run", "COMPLETED", 0)


async def test_a_keeper_that_is_stopped_while_it_wakes_up_stops(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    """`asyncio.wait_for` of Python 3.11 loses a cancellation when it has just been woken."""
    async with idle_worker(config, basics.noop_flow) as worker:
        await gateway.submit("noop")
        delivery, owned = await claimed_by(worker)
        services = worker._services
        questions = RunQuestions(services.waits, services.wait_events, decode_job(delivery.payload), 60.0)
        for turns in range(8):
            executor = ThreadExecutor(lambda _: basics.noop_flow, config)
            keeper = RunKeeper(worker._services, delivery, owned, executor, questions)
            async with asyncio.timeout(LIMIT_SEC), asyncio.TaskGroup() as group:
                keeper.start(group)
                keeper.stop_writing()
                keeper.wake()
                for _ in range(turns):
                    await asyncio.sleep(0)
                keeper.stop()
