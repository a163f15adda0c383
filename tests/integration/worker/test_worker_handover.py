"""The runs of a worker that drains, dies or is paused are taken over once."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.broker.queue.work_queue import WorkQueue
from tests.flows import basics
from tests.integration.worker.conftest import OwnQueue
from tests.support.inspection import claimed_by, started_pid
from tests.support.places import FLOWS
from tests.support.programs import WORKER, running
from tests.support.waiting import LIMIT_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_run_longer_than_the_drain_time_moves_to_another_worker_at_once(
    own_queue: OwnQueue, tmp_path: Path
) -> None:
    release, marker = tmp_path / "release", tmp_path / "started"
    async with own_queue.worker("leaving", drain_timeout_sec=0.2):
        run_id = await own_queue.submit("waiting", params={"path": str(release), "started": str(marker)})
        pid = await started_pid(marker)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    release.touch()
    async with own_queue.worker("successor"):
        run = await own_queue.gateway.ends(run_id)
    assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "successor", 2)


async def test_a_successor_whose_code_has_no_version_does_not_keep_that_of_the_first(
    own_queue: OwnQueue, tmp_path: Path
) -> None:
    release, marker = tmp_path / "release", tmp_path / "started"
    async with own_queue.worker("leaving", drain_timeout_sec=0.2):
        run_id = await own_queue.submit("waiting", params={"path": str(release), "started": str(marker)})
        await started_pid(marker)

        async def has_version() -> bool:
            return "code_version" in await own_queue.gateway.get(run_id)

        await eventually(has_version, describe="the first worker has stored its version")
    release.touch()
    async with own_queue.idle_worker(basics.waiting_flow, "resolver") as successor:
        assert await successor.run_once(timeout=LIMIT_SEC) == run_id
    run = await own_queue.gateway.ends(run_id)
    assert (run["status"], run["worker_id"]) == ("COMPLETED", "resolver")
    assert "code_version" not in run


async def test_the_run_of_a_crashed_worker_is_taken_over(own_queue: OwnQueue) -> None:
    """Claimed and then killed, as if the machine had lost power."""
    settings: dict[str, Any] = {"consumer_ack_wait_sec": 1.0, "ack_progress_interval_sec": 0.3}
    async with own_queue.idle_worker(basics.noop_flow, "lost", **settings) as lost:
        run_id = await own_queue.submit("noop")
        await claimed_by(lost)
        async with own_queue.worker("heir", **settings):
            run = await own_queue.gateway.ends(run_id)
    assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "heir", 2)


async def test_a_run_is_not_taken_from_its_worker_by_a_redelivery_to_the_same_worker(
    own_queue: OwnQueue, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As when a machine under load has not extended the delivery for AckWait."""
    caplog.set_level("INFO")
    release, marker, gateway = tmp_path / "release", tmp_path / "started", own_queue.gateway
    async with own_queue.worker("slow", concurrency=2):
        run_id = await own_queue.submit("waiting", params={"path": str(release), "started": str(marker)})
        pid = await started_pid(marker)
        sequence, _ = (await gateway.get(run_id))["delivery"]
        await WorkQueue(gateway.inside.connection).redeliver(own_queue.tag, sequence)
        dropped = "dropped a delivery: this worker still executes"
        await eventually(lambda: dropped in caplog.text, describe="the second delivery is dropped")
        marker.unlink()
        release.touch()
        run = await gateway.ends(run_id)
        await own_queue.becomes_empty()
    assert (run["status"], run["attempt"], run["delivery"]) == ("COMPLETED", 1, [sequence, 1])
    assert not marker.exists(), f"the task was executed by process {pid} only"
    assert "lost a run" not in caplog.text


async def test_a_paused_worker_does_not_overwrite_the_next_owner(own_queue: OwnQueue, tmp_path: Path) -> None:
    release, marker, gateway = tmp_path / "release", tmp_path / "started", own_queue.gateway
    # Longer than the next owner may be paused, or the run is redelivered once more.
    settings = {
        "PYOCO_CONSUMER_ACK_WAIT_SEC": "8",
        "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "0.3",
        "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.1",
        "PYOCO_NATS_URL": gateway.inside.config.nats_url,
    }
    arguments = ("--flows", str(FLOWS), "--worker-id", "paused", "--tag", own_queue.tag)
    with running(WORKER, *arguments, cwd=tmp_path, **settings) as (paused, _):
        run_id = await own_queue.submit("waiting", params={"path": str(release), "started": str(marker)})
        await started_pid(marker)
        paused.send(signal.SIGSTOP)
        async with own_queue.worker("successor", consumer_ack_wait_sec=8.0, ack_progress_interval_sec=0.3):

            async def is_taken_over() -> bool:
                return bool((await gateway.get(run_id))["worker_id"] == "successor")

            await eventually(is_taken_over, describe="the successor has the run")
            paused.send(signal.SIGCONT)
            await asyncio.to_thread(paused.writes, "lost a run: worker successor owns the run")
            assert await is_taken_over()
            release.touch()
            run = await gateway.ends(run_id)
    assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "successor", 2)
