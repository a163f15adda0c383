"""Handing over a run does not exhaust its deliveries."""

from dataclasses import replace
from pathlib import Path

import pytest

from pyoco_server.config import NatsBackendConfig
from tests.support.inspection import queue_is_empty, started_pid
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually, eventually_equals


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    """Every delivery is the last one, and the sweep comes soon."""
    return replace(
        config,
        consumer_max_deliver=1,
        # Longer than the machine stands still: a worker that is not heard of has lost its run.
        consumer_ack_wait_sec=10.0,
        sweep_interval_sec=0.2,
        drain_timeout_sec=0.2,
    )


async def test_a_run_survives_more_drains_than_deliveries(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    release, marker = tmp_path / "release", tmp_path / "started"
    run_id = await gateway.submit("waiting", params={"path": str(release), "started": str(marker)})

    async def attempt() -> int:
        return int((await gateway.get(run_id))["attempt"])

    async with serving_worker(config, worker_id="first"):
        await started_pid(marker)
    handed_back = await gateway.get(run_id)
    assert (handed_back["status"], handed_back["attempt"], handed_back["handed_back"]) == ("RUNNING", 1, True)
    async with serving_worker(config, worker_id="second"):
        await eventually_equals(attempt, 2, describe="the next worker has it")
        assert "handed_back" not in await gateway.get(run_id)
    release.touch()
    async with serving_worker(config, worker_id="third"):
        run = await gateway.ends(run_id)
        assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "third", 3)
        await eventually(lambda: queue_is_empty(gateway), describe="no job is left")
