"""The worker under load: its start, slots, long runs, large outputs, changed flows."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.broker.client.direct_client import DirectClient
from pyoco_server.records.runs.run_models import decode_job
from pyoco_server.records.workers.worker_models import WorkerRecord
from pyoco_server.worker import nats_worker
from pyoco_server.worker.executors.renewable_executor import RenewableExecutor
from pyoco_server.worker.executors.thread_executor import ThreadExecutor
from pyoco_server.worker.session.presence import Presence
from pyoco_server.worker.session.run_keeper import RunKeeper
from pyoco_server.worker.session.run_questions import RunQuestions
from tests.flows import basics
from tests.integration.worker.conftest import OwnQueue
from tests.support.inspection import claimed_by, started_pid, worker_record
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import idle_worker
from tests.support.waiting import LIMIT_SEC, eventually
from tests.unit.worker.flows.test_flow_files import strange_files

pytestmark = pytest.mark.asyncio(loop_scope="module")

# With more room than is needed: a worker that stands still for longer than AckWait does lose its runs.
SHORT_ACK_WAIT: dict[str, Any] = {"consumer_ack_wait_sec": 2.0, "ack_progress_interval_sec": 0.3}


# A cluster does not answer the first of these while it elects the leader of a consumer.
@pytest.mark.parametrize(
    "subject",
    [
        "$JS.API.CONSUMER.INFO.PYOCO_WORK.pyoco_worker_{tag}",
        "pyoco.journal.{tag}.check",
        "$KV.pyoco_workers.{tag}",
    ],
)
async def test_a_worker_starts_when_one_of_its_first_requests_was_not_answered(
    own_queue: OwnQueue, subject: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    unanswered = [subject.format(tag=own_queue.tag)]
    publish = DirectClient.try_publish

    def losing(self: DirectClient, subject: str, *arguments: Any) -> bool:
        if subject in unanswered:
            unanswered.remove(subject)
            return True
        return publish(self, subject, *arguments)

    monkeypatch.setattr(DirectClient, "try_publish", losing)
    async with own_queue.worker(nats_request_timeout_sec=1.5):
        assert unanswered == [], "this request is not sent at the start any more"
        reasons = [text for text in caplog.messages if "cannot start yet" in text]
        assert any(subject.format(tag=own_queue.tag) in reason for reason in reasons), reasons
        assert (await own_queue.run("noop"))["status"] == "COMPLETED"


async def test_four_slots_run_four_runs_at_once_and_one_crash_fails_one(
    own_queue: OwnQueue, tmp_path: Path
) -> None:
    gateway, release = own_queue.gateway, tmp_path / "release"

    async def all_are_busy() -> WorkerRecord | None:
        record = await worker_record(gateway, "w-4")
        return record if record.slots_busy == 4 else None

    async with own_queue.worker("w-4", concurrency=4):
        markers = [tmp_path / f"started-{number}" for number in range(4)]
        run_ids = [
            await own_queue.submit("waiting", params={"path": str(release), "started": str(marker)})
            for marker in markers
        ]
        pids = [await started_pid(marker) for marker in markers]
        assert len(set(pids)) == 4
        record = await eventually(all_are_busy, describe="the registry shows four busy slots")
        assert set(record.current_run_ids) == set(run_ids)

        os.kill(pids[0], signal.SIGKILL)
        crashed = await gateway.ends(run_ids[0])
        assert (crashed["status"], crashed["reason"]) == ("FAILED", "executor_crashed")
        assert "SIGKILL" in crashed["error"]
        release.touch()
        for run_id in run_ids[1:]:
            assert (await gateway.ends(run_id))["status"] == "COMPLETED"
        # The slot that lost its executor has another.
        again = [await own_queue.submit("noop") for _ in range(8)]
        assert {(await gateway.ends(run_id))["status"] for run_id in again} == {"COMPLETED"}


async def test_a_run_of_three_times_ack_wait_is_executed_once(own_queue: OwnQueue, tmp_path: Path) -> None:
    counter = tmp_path / "executions"
    async with own_queue.worker(concurrency=2, **SHORT_ACK_WAIT):
        run = await own_queue.run("counting", params={"counter": str(counter), "seconds": 6.2})
    assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
    assert counter.read_text() == "executed\n"


async def test_holding_the_gil_for_long_does_not_lose_the_run(own_queue: OwnQueue) -> None:
    async with own_queue.worker(**SHORT_ACK_WAIT):
        run = await own_queue.run("deaf", params={"seconds": 3.5})
    assert (run["status"], run["attempt"]) == ("COMPLETED", 1)


async def test_many_tasks_with_values_still_fit(own_queue: OwnQueue) -> None:
    async with own_queue.worker(max_run_snapshot_bytes=16_384):
        run = await own_queue.run("wide")
    assert run["status"] == "COMPLETED"
    assert len(run["tasks"]) == 40
    assert run["task_records_truncated"] is True


async def test_a_snapshot_never_exceeds_the_limit_of_nats(own_queue: OwnQueue) -> None:
    """Records of 2 MB in all, where the server takes messages of 1 MB."""
    async with own_queue.worker(max_run_snapshot_bytes=16 * 1024 * 1024):
        run = await own_queue.run("wide", params={"width": 30_000})
    assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
    assert len(run["tasks"]) == 40
    assert run["task_records_truncated"] is True


async def test_changed_flows_are_used_by_the_next_run_without_a_restart(
    own_queue: OwnQueue, tmp_path: Path
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
        return str((await own_queue.run("asked"))["task_records"]["answer"]["output"])

    write("old")
    async with own_queue.worker(flows=folder):
        assert await answered() == "old"
        write("new and different")

        async def is_new() -> bool:
            return await answered() == "new and different"

        await eventually(is_new, describe="the new code is used")


async def test_strange_files_do_not_stop_a_worker(own_queue: OwnQueue, tmp_path: Path) -> None:
    folder, release, started = tmp_path / "flows", tmp_path / "release", tmp_path / "started"
    params = {"path": str(release), "started": str(started)}
    folder.mkdir()
    (folder / "good.py").write_text("from tests.flows.basics import waiting_flow\n")
    async with own_queue.worker(flows=folder) as worker:
        run_id = await own_queue.submit("waiting", params=params)
        await eventually(started.exists, describe="the run has started")
        strange_files(folder)
        [executor] = worker._executors
        assert isinstance(executor, RenewableExecutor)
        await eventually(lambda: executor._retired, describe="the change is noticed")
        release.touch()
        assert (await own_queue.gateway.ends(run_id))["status"] == "COMPLETED"
        assert (await own_queue.run("waiting", params=params))["status"] == "COMPLETED"


async def test_a_flow_that_is_added_while_the_folder_is_loaded_is_found(
    own_queue: OwnQueue, tmp_path: Path
) -> None:
    """Between the load of the executors and the first look of the watch."""
    folder = tmp_path / "flows"
    folder.mkdir()
    # It adds the second flow when it is imported, after the files of the folder were listed.
    (folder / "first.py").write_text(
        "from pathlib import Path\n"
        "from tests.flows.basics import noop_flow\n"
        "second = Path(__file__).with_name('second.py')\n"
        "second.exists() or second.write_text('from tests.flows.basics import waiting_flow\\n')\n"
    )
    async with own_queue.worker(flows=folder) as worker:
        assert worker.flows == ["noop"]
        [executor] = worker._executors
        assert isinstance(executor, RenewableExecutor)
        await eventually(lambda: executor._retired, describe="the change is noticed")
        assert (await own_queue.run("noop"))["status"] == "COMPLETED"
        assert executor.ready.flows == ["noop", "waiting"]


async def test_an_error_of_the_watch_does_not_stop_a_worker(
    own_queue: OwnQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = 0

    def fail(_: Path) -> str:
        nonlocal failures
        failures += 1
        raise RuntimeError("what nobody has thought of")

    async with own_queue.worker():
        monkeypatch.setattr(nats_worker, "fingerprint_of", fail)
        await eventually(lambda: failures > 1, describe="the watch has failed and continues")
        assert (await own_queue.run("noop"))["status"] == "COMPLETED"


async def test_a_run_that_was_redelivered_to_its_own_worker_ends_twice_in_the_record(
    shared_gateway: RunningGateway,
) -> None:
    """After an outage longer than AckWait: the first slot loses the run to the second, and both end."""
    presence = Presence(shared_gateway.inside.connection, worker_id="w", tags=["default"], slots=2)
    await presence.start()
    for _ in range(2):
        presence.began("run")
    for status in (None, "COMPLETED"):
        presence.ended("run", status)
    await presence.stop("graceful_shutdown")
    record = await worker_record(shared_gateway, "w")
    assert (record.last_run_id, record.last_run_status, record.slots_busy) == ("run", "COMPLETED", 0)


async def test_a_keeper_that_is_stopped_while_it_wakes_up_stops(shared_gateway: RunningGateway) -> None:
    """`asyncio.wait_for` of Python 3.11 loses a cancellation when it has just been woken."""
    config = shared_gateway.inside.config
    async with idle_worker(config, basics.noop_flow) as worker:
        await shared_gateway.submit("noop")
        delivery, owned = await claimed_by(worker)
        services = worker._services
        questions = RunQuestions(services.waits, services.wait_events, decode_job(delivery.payload), 60.0)
        for turns in range(8):
            executor = ThreadExecutor(lambda _: basics.noop_flow, config)
            keeper = RunKeeper(
                services,
                delivery,
                owned,
                executor,
                questions,
                with_artifacts_and_version=lambda snapshot: snapshot,
            )
            async with asyncio.timeout(LIMIT_SEC), asyncio.TaskGroup() as group:
                keeper.register(group)
                keeper.stop_writing()
                keeper.wake()
                for _ in range(turns):
                    await asyncio.sleep(0)
                keeper.stop()
