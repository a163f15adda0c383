"""The worker under real load and real faults: slots, crashes, redelivery, registry, drain."""

import asyncio
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyoco_server.broker.publishing import publish_acked
from pyoco_server.broker.work_queue import Delivery
from pyoco_server.config import NatsBackendConfig
from pyoco_server.models import WorkerRecord, WorkerState, decode_job
from pyoco_server.runs.ownership import OwnedRun, claim
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.presence import Presence
from pyoco_server.worker.run_keeper import RunKeeper
from pyoco_server.worker.run_questions import RunQuestions

from .flows import basics
from .support.gateway import RunningGateway
from .support.processes import is_alive
from .support.programs import WORKER, running
from .support.waiting import eventually
from .support.workers import FLOWS, idle_worker, serving_worker


async def dead_letters(gateway: RunningGateway) -> list[dict[str, Any]]:
    context = gateway.inside.connection.client.jetstream()
    stream = gateway.inside.config.dlq_stream
    count = (await context.stream_info(stream)).state.messages
    letters = [await context.get_msg(stream, seq) for seq in range(1, count + 1)]
    return [
        {"subject_of_letter": letter.subject, **msgspec.json.decode(letter.data or b"")} for letter in letters
    ]


async def queue_is_empty(gateway: RunningGateway) -> bool:
    context = gateway.inside.connection.client.jetstream()
    return bool((await context.stream_info(gateway.inside.config.work_stream)).state.messages == 0)


async def worker_record(gateway: RunningGateway, worker_id: str = "worker") -> WorkerRecord:
    record = await gateway.inside.workers.get(worker_id)
    assert record is not None
    return record


async def started_pid(marker: Path) -> int:
    text = await eventually(
        lambda: marker.read_text() if marker.exists() else "", within=10, describe="the task began"
    )
    return int(text)


async def claimed_by(worker: PyocoNatsWorker) -> tuple[Delivery, OwnedRun]:
    """The worker has the run, and does nothing with it."""
    async with asyncio.timeout(5):
        delivery = await worker._intake.take()
    services = worker._services
    owned = await claim(
        services.store,
        services.queue,
        decode_job(delivery.payload),
        delivery=delivery.token,
        expected_revision=delivery.revision,
        worker_id=services.worker_id,
        max_bytes=services.max_snapshot_bytes,
    )
    return delivery, owned


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
        record = await eventually(
            lambda: _busy(gateway, 4), within=5, describe="the registry shows four busy slots"
        )
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
async def test_a_crashed_executor_says_how_it_ended(
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
        assert await eventually(lambda: queue_is_empty(gateway), within=5, describe="the queue is empty")


async def test_a_run_of_three_times_ack_wait_is_executed_once(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    counter = tmp_path / "executions"
    short = replace(config, consumer_ack_wait_sec=1.0, ack_progress_interval_sec=0.3)
    async with serving_worker(short, concurrency=2):
        run_id = await gateway.submit("counting", params={"counter": str(counter), "seconds": 3.2})
        run = await gateway.ends(run_id, within=15)
        assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
    assert counter.read_text() == "executed\n"


async def test_a_long_hold_of_the_gil_does_not_lose_the_run(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    short = replace(config, consumer_ack_wait_sec=1.0, ack_progress_interval_sec=0.3)
    async with serving_worker(short):
        run = await gateway.ends(await gateway.submit("deaf", params={"seconds": 2.5}), within=15)
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
        assert await eventually(lambda: queue_is_empty(gateway), within=5, describe="the message is acked")


async def test_many_tasks_with_values_still_fit(config: NatsBackendConfig, gateway: RunningGateway) -> None:
    async with serving_worker(replace(config, max_run_snapshot_bytes=16_384)):
        run = await gateway.ends(await gateway.submit("wide"))
        assert run["status"] == "COMPLETED"
        assert len(run["tasks"]) == 40
        assert run["task_records_truncated"] is True


async def test_a_snapshot_never_outgrows_the_server_whatever_the_setting_says(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    """Records of 2 MB in all, where the server takes messages of 1 MB."""
    async with serving_worker(replace(config, max_run_snapshot_bytes=16 * 1024 * 1024)):
        run = await gateway.ends(await gateway.submit("wide", params={"width": 30_000}))
        assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
        assert len(run["tasks"]) == 40
        assert run["task_records_truncated"] is True


async def test_failures_are_told_to_the_dead_letter_stream(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(config):
        failing = await gateway.submit("failing", params={"message": "no disk"}, tags=["nightly"])
        await gateway.ends(failing)
        unknown = await gateway.submit("nobody-knows")
        await gateway.ends(unknown)
        assert await eventually(lambda: queue_is_empty(gateway), within=5, describe="both are acked")
    first, second = await dead_letters(gateway)
    assert first["subject_of_letter"] == "pyoco.dlq.default"
    assert first["reason"] == "execution_error"
    assert first["error"] == "task fail: ValueError: no disk"
    assert (first["run_id"], first["flow_name"], first["tag"]) == (failing, "failing", "default")
    assert (first["tags"], first["worker_id"], first["num_delivered"]) == (["nightly"], "worker", 1)
    assert first["subject"] == "pyoco.work.default"
    assert time.time() - first["timestamp"] < 60
    assert (second["reason"], second["run_id"]) == ("flow_not_found", unknown)


async def test_execution_errors_stay_out_of_the_dead_letters_if_so_configured(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(replace(config, dlq_publish_execution_error=False)):
        await gateway.ends(await gateway.submit("failing"))
        await gateway.ends(await gateway.submit("nobody-knows"))
    assert [letter["reason"] for letter in await dead_letters(gateway)] == ["flow_not_found"]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{not json",
        b"[]",
        b'{"run_id": "x"}',
        b'{"flow_name": "f"}',
        b'{"run_id": "\xff"}',
        b'{"params": ' + b"[" * 5000,
    ],
)
async def test_a_job_that_cannot_be_read_goes_to_the_dead_letters_for_good(
    config: NatsBackendConfig, gateway: RunningGateway, payload: bytes
) -> None:
    async with serving_worker(config):
        await publish_acked(gateway.inside.connection, "pyoco.work.default", payload)
        letters = await eventually(lambda: dead_letters(gateway), within=5, describe="a dead letter")
        assert [letter["reason"] for letter in letters] == ["invalid_job"]
        assert await eventually(lambda: queue_is_empty(gateway), within=5, describe="TERM removed it")
        assert (await gateway.ends(await gateway.submit("noop")))["status"] == "COMPLETED"


async def test_an_unreadable_job_of_a_known_run_fails_that_run(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    run_id = await gateway.submit("noop", tag="elsewhere")
    async with serving_worker(config):
        broken = msgspec.json.encode({"run_id": run_id, "flow_name": 5})
        await publish_acked(gateway.inside.connection, "pyoco.work.default", broken)
        run = await gateway.ends(run_id)
        assert (run["status"], run["reason"]) == ("FAILED", "invalid_job")
        assert "flow_name" in run["error"]


async def test_a_message_delivered_again_for_an_ended_run_executes_nothing(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    counter = tmp_path / "executions"
    run_id = await gateway.submit("counting", params={"counter": str(counter), "seconds": 0})
    context = gateway.inside.connection.client.jetstream()
    job = (await context.get_msg("PYOCO_WORK", seq=1)).data or b""
    async with serving_worker(config):
        await gateway.ends(run_id)
        await publish_acked(gateway.inside.connection, "pyoco.work.default", job)
        assert await eventually(lambda: queue_is_empty(gateway), within=5, describe="the copy is dropped")
    assert counter.read_text() == "executed\n"


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

        busy = await eventually(lambda: state_is(WorkerState.RUNNING), within=5, describe="RUNNING")
        assert busy.current_run_id == run_id
        assert busy.instance_id == idle.instance_id

        async def heard_again() -> bool:
            return (await worker_record(gateway, "w-1")).last_seen_at > busy.last_seen_at

        await eventually(heard_again, within=5, describe="the worker is seen again while it runs")
        release.touch()
        await gateway.ends(run_id)
        after = await eventually(lambda: state_is(WorkerState.IDLE), within=5, describe="IDLE again")
        assert (after.last_run_id, after.last_run_status) == (run_id, "COMPLETED")
        assert after.current_run_id is None
    stopped = await worker_record(gateway, "w-1")
    assert stopped.state is WorkerState.STOPPED_GRACEFUL
    assert stopped.stop_reason == "graceful_shutdown"
    assert stopped.stopped_at is not None


async def test_a_worker_process_that_is_told_to_stop_says_so_in_its_record(
    gateway: RunningGateway, nats_url: str, tmp_path: Path
) -> None:
    with running(WORKER, "--worker-id", "w-1", "--nats-url", nats_url, cwd=tmp_path) as (worker, _):
        assert (await worker_record(gateway, "w-1")).state is WorkerState.IDLE
        worker.send(signal.SIGTERM)
        assert await asyncio.to_thread(worker.end) == 0
    record = await worker_record(gateway, "w-1")
    assert (record.state, record.stop_reason) == (WorkerState.STOPPED_GRACEFUL, "graceful_shutdown")


async def test_a_killed_worker_is_seen_as_gone_and_its_record_stays(
    config: NatsBackendConfig, gateway: RunningGateway, nats_url: str, tmp_path: Path
) -> None:
    marker = tmp_path / "started"
    arguments = ("--flows", str(FLOWS), "--worker-id", "w-1", "--nats-url", nats_url)
    settings = {"PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "0.2"}
    with running(WORKER, *arguments, cwd=tmp_path, **settings) as (worker, _):
        run_id = await gateway.submit("waiting", params={"path": str(tmp_path / "x"), "started": str(marker)})
        await started_pid(marker)
        assert (await gateway.get(run_id))["worker_alive"] is True
        worker.process.kill()

    async def is_seen_as_gone() -> bool:
        return (await gateway.get(run_id))["worker_alive"] is False

    await eventually(is_seen_as_gone, within=10, describe="its worker is not alive")
    timeout_sec = config.worker_disconnect_timeout_sec
    record = await worker_record(gateway, "w-1")
    assert record.observed_state(disconnect_timeout_sec=timeout_sec) is WorkerState.DISCONNECTED


async def test_the_last_progress_tells_a_run_that_hangs_from_a_worker_that_lives(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"

    async def record_since(moment: float) -> WorkerRecord:
        async def written() -> WorkerRecord | None:
            record = await worker_record(gateway)
            return record if record.last_heartbeat_at > moment else None

        return await eventually(written, within=5, describe="a heartbeat of the worker")

    async with serving_worker(config):
        run_id = await gateway.submit("holding-twice", params={"one": str(one), "other": str(other)})
        progress: list[float | None] = []
        for task, release in (("hold", one), ("hold_again", other)):

            async def task_runs(task: str = task) -> bool:
                return bool((await gateway.get(run_id))["tasks"].get(task) == "RUNNING")

            await eventually(task_runs, within=10, describe=f"{task} runs")
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


async def test_hidden_is_kept_by_the_worker_that_it_hides(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(config):
        context = gateway.inside.connection.client.jetstream()
        bucket = await context.key_value(config.workers_kv_bucket)
        hidden = msgspec.structs.replace(await worker_record(gateway), hidden=True)
        await bucket.put("worker", msgspec.json.encode(hidden))

        async def heard_since() -> bool:
            return (await worker_record(gateway)).last_seen_at > hidden.last_seen_at

        await eventually(heard_since, within=5, describe="the worker wrote its record")
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


async def test_draining_finishes_what_runs_and_takes_nothing_new(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    release, marker = tmp_path / "release", tmp_path / "started"
    async with serving_worker(config):
        run_id = await gateway.submit("waiting", params={"path": str(release), "started": str(marker)})
        await started_pid(marker)
        later = await gateway.submit("noop")
        asyncio.get_running_loop().call_later(0.5, release.touch)
    assert (await gateway.get(run_id))["status"] == "COMPLETED"
    assert (await gateway.get(later))["status"] == "PENDING"
    async with serving_worker(config, worker_id="next"):
        assert (await gateway.ends(later))["worker_id"] == "next"


async def test_a_run_that_outlasts_the_drain_is_handed_to_another_worker_at_once(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    release, marker = tmp_path / "release", tmp_path / "started"
    patient = replace(config, drain_timeout_sec=0.2, consumer_ack_wait_sec=60.0)
    async with serving_worker(patient, worker_id="leaving"):
        run_id = await gateway.submit("waiting", params={"path": str(release), "started": str(marker)})
        pid = await started_pid(marker)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    release.touch()
    async with serving_worker(patient, worker_id="successor"):
        run = await gateway.ends(run_id, within=10)
        assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "successor", 2)


async def test_a_crashed_worker_s_run_is_taken_over(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    """Taken, claimed, and then never heard of again: as if the machine had lost power."""
    async with idle_worker(config, basics.noop_flow, worker_id="lost") as lost:
        run_id = await gateway.submit("noop")
        await claimed_by(lost)
        async with serving_worker(config, worker_id="heir"):
            run = await gateway.ends(run_id, within=15)
    assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "heir", 2)


async def test_a_worker_that_was_paused_does_not_write_over_its_successor(
    config: NatsBackendConfig, gateway: RunningGateway, nats_url: str, tmp_path: Path
) -> None:
    release, marker = tmp_path / "release", tmp_path / "started"
    short = replace(config, consumer_ack_wait_sec=1.0, ack_progress_interval_sec=0.3)
    settings = {
        "PYOCO_CONSUMER_ACK_WAIT_SEC": "1",
        "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "0.3",
        "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.1",
    }
    arguments = ("--flows", str(FLOWS), "--worker-id", "paused", "--nats-url", nats_url)
    with running(WORKER, *arguments, cwd=tmp_path, **settings) as (paused, _):
        run_id = await gateway.submit("waiting", params={"path": str(release), "started": str(marker)})
        await started_pid(marker)
        paused.send(signal.SIGSTOP)
        async with serving_worker(short, worker_id="successor"):

            async def is_taken_over() -> bool:
                return bool((await gateway.get(run_id))["worker_id"] == "successor")

            await eventually(is_taken_over, within=10, describe="the successor has the run")
            paused.send(signal.SIGCONT)
            await asyncio.to_thread(paused.writes, "lost a run: worker successor owns the run", 10)
            assert await is_taken_over()
            release.touch()
            run = await gateway.ends(run_id)
    assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "successor", 2)


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

        await eventually(is_new, within=10, describe="the new code is used")


@pytest.mark.parametrize("then", ["crash", "return"])
async def test_what_a_task_started_ends_with_its_executor_and_hangs_nothing(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path, then: str
) -> None:
    pid_file = tmp_path / "pid"
    async with serving_worker(config):
        run_id = await gateway.submit("parent", params={"pid_file": str(pid_file), "then": then})
        run = await gateway.ends(run_id)
        assert run["status"] == ("FAILED" if then == "crash" else "COMPLETED")
        assert (await gateway.ends(await gateway.submit("noop")))["status"] == "COMPLETED"
    pid = int(pid_file.read_text())
    await eventually(lambda: not is_alive(pid), within=5, describe="the grandchild has ended")


async def test_a_run_that_came_back_to_another_slot_of_its_worker_is_counted_off_twice(
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


async def test_a_keeper_that_is_told_to_stop_while_it_wakes_up_stops(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    """Whenever the word comes: `asyncio.wait_for` of Python 3.11 loses it when it has just been woken."""
    async with idle_worker(config, basics.noop_flow) as worker:
        await gateway.submit("noop")
        delivery, owned = await claimed_by(worker)
        services = worker._services
        questions = RunQuestions(services.waits, services.wait_events, decode_job(delivery.payload), 60.0)
        for turns in range(8):
            keeper = RunKeeper(worker._services, delivery, owned, worker._executors[0], questions)
            async with asyncio.timeout(5), asyncio.TaskGroup() as group:
                keeper.start(group)
                keeper.leave_snapshot_alone()
                keeper.wake()
                for _ in range(turns):
                    await asyncio.sleep(0)
                keeper.stop()
