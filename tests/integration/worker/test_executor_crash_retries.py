"""A run whose executor process is killed continues in another one, as often as the setting allows."""

import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from pyoco_server.config import NatsBackendConfig
from tests.support.inspection import started_pid
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import NEVER_SEC, eventually


@pytest.fixture
async def gateway(gateway: RunningGateway, config: NatsBackendConfig) -> AsyncIterator[RunningGateway]:
    async with serving_worker(replace(config, executor_crash_retries=1, cancel_grace_period_sec=0.1)):
        yield gateway


async def _killed(marker: Path) -> None:
    pid = await started_pid(marker)
    marker.unlink()
    os.kill(pid, signal.SIGKILL)


async def test_run_continues_after_its_executor_was_killed(gateway: RunningGateway, tmp_path: Path) -> None:
    release, marker = tmp_path / "release", tmp_path / "started"
    run_id = await gateway.submit("waiting", params={"path": str(release), "started": str(marker)})
    await _killed(marker)
    assert await started_pid(marker)
    release.touch()
    run = await gateway.ends(run_id)
    assert (run["status"], run["attempt"]) == ("COMPLETED", 1)


async def test_run_whose_executors_keep_crashing_fails(gateway: RunningGateway, tmp_path: Path) -> None:
    marker = tmp_path / "started"
    run_id = await gateway.submit("waiting", params={"path": str(tmp_path / "never"), "started": str(marker)})
    for _ in range(2):
        await _killed(marker)
    run = await gateway.ends(run_id)
    assert (run["status"], run["reason"]) == ("FAILED", "executor_crashed")


async def test_run_that_is_ended_by_force_does_not_continue(gateway: RunningGateway, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    run_id = await gateway.submit("counting", params={"counter": str(counter), "seconds": NEVER_SEC})
    await eventually(counter.exists, describe="the task began")
    cancelled = await gateway.http.post(f"/runs/{run_id}/cancel")
    assert cancelled.status_code == 200, cancelled.text
    run = await gateway.ends(run_id)
    assert (run["status"], run["reason"]) == ("CANCELLED", "cancel_forced")
    assert counter.read_text().split() == ["executed"]
