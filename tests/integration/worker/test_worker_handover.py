"""The runs of a worker that drains, dies or is paused are taken over once."""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from pyoco_server.config import NatsBackendConfig
from tests.flows import basics
from tests.support.inspection import claimed_by, started_pid
from tests.support.places import FLOWS
from tests.support.programs import WORKER, running
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import idle_worker, serving_worker
from tests.support.waiting import NEVER_SEC, eventually


async def test_a_run_longer_than_the_drain_time_moves_to_another_worker_at_once(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    release, marker = tmp_path / "release", tmp_path / "started"
    patient = replace(config, drain_timeout_sec=0.2, consumer_ack_wait_sec=NEVER_SEC)
    async with serving_worker(patient, worker_id="leaving"):
        run_id = await gateway.submit("waiting", params={"path": str(release), "started": str(marker)})
        pid = await started_pid(marker)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    release.touch()
    async with serving_worker(patient, worker_id="successor"):
        run = await gateway.ends(run_id)
        assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "successor", 2)


async def test_the_run_of_a_crashed_worker_is_taken_over(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    """Claimed and then killed, as if the machine had lost power."""
    config = replace(config, consumer_ack_wait_sec=1.0, ack_progress_interval_sec=0.3)
    async with idle_worker(config, basics.noop_flow, worker_id="lost") as lost:
        run_id = await gateway.submit("noop")
        await claimed_by(lost)
        async with serving_worker(config, worker_id="heir"):
            run = await gateway.ends(run_id)
    assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "heir", 2)


async def test_a_paused_worker_does_not_overwrite_the_next_owner(
    config: NatsBackendConfig, gateway: RunningGateway, nats_url: str, tmp_path: Path
) -> None:
    release, marker = tmp_path / "release", tmp_path / "started"
    # Longer than the next owner may be paused, or the run is redelivered once more.
    short = replace(config, consumer_ack_wait_sec=2.0, ack_progress_interval_sec=0.3)
    settings = {
        "PYOCO_CONSUMER_ACK_WAIT_SEC": "2",
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

            await eventually(is_taken_over, describe="the successor has the run")
            paused.send(signal.SIGCONT)
            await asyncio.to_thread(paused.writes, "lost a run: worker successor owns the run")
            assert await is_taken_over()
            release.touch()
            run = await gateway.ends(run_id)
    assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "successor", 2)
