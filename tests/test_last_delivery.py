"""A run that goes back to the queue through no fault of its own does not use itself up by that."""

from dataclasses import replace
from pathlib import Path

import pytest

from pyoco_server.broker import intake
from pyoco_server.config import NatsBackendConfig

from .support.gateway import RunningGateway
from .support.looking import queue_is_empty, started_pid
from .support.waiting import eventually
from .support.workers import serving_worker


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    """Every delivery is the last one, and the sweep comes soon."""
    return replace(
        config,
        consumer_max_deliver=1,
        consumer_ack_wait_sec=1.0,
        ack_progress_interval_sec=0.3,
        sweep_interval_sec=0.2,
        drain_timeout_sec=0.2,
    )


async def test_a_run_outlasts_more_drains_than_it_has_deliveries(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    release, marker = tmp_path / "release", tmp_path / "started"
    run_id = await gateway.submit("waiting", params={"path": str(release), "started": str(marker)})

    async def attempt() -> int:
        return int((await gateway.get(run_id))["attempt"])

    async with serving_worker(config, worker_id="first"):
        await started_pid(marker)
    assert await attempt() == 1
    async with serving_worker(config, worker_id="second"):

        async def is_begun_again() -> bool:
            return await attempt() == 2

        await eventually(is_begun_again, within=15, describe="the next worker has it")
    release.touch()
    async with serving_worker(config, worker_id="third"):
        run = await gateway.ends(run_id, within=15)
        assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "third", 3)
        await eventually(lambda: queue_is_empty(gateway), within=5, describe="no job is left")


async def test_what_a_worker_fetched_and_never_began_is_not_given_up(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "_HOLD_SEC", 0.0)
    release, marker = tmp_path / "release", tmp_path / "started"
    async with serving_worker(config, worker_id="busy") as worker:
        await gateway.submit("waiting", params={"path": str(release), "started": str(marker)})
        await started_pid(marker)
        run_id = await gateway.submit("noop")
        tag = worker._intake._tags[0]
        tag.waiting = 1
        await worker._intake.come_again()
        await eventually(tag.settled.is_set, within=5, describe="it was fetched")
        await eventually(lambda: not tag.buffer, within=5, describe="it went back")
        assert (await gateway.get(run_id))["status"] == "PENDING"
        async with serving_worker(config, worker_id="free"):
            run = await gateway.ends(run_id, within=15)
            assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "free", 1)
        release.touch()
