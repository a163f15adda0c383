"""Task records of a run in progress, and of a run that loses its executor."""

import os
import signal
from pathlib import Path

from pyoco_server.config import NatsBackendConfig
from tests.support.inspection import started_pid
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually


async def test_a_running_run_has_its_graph_and_times(
    gateway: RunningGateway, config: NatsBackendConfig, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    params = {"book": str(tmp_path / "book"), "release": str(release)}
    async with serving_worker(config):
        run_id = await gateway.submit("interrupted-branches", params=params)

        async def waits_in_the_middle() -> bool:
            run = await gateway.get(run_id, include="records")
            return "ended_at" in run["task_records"].get("right", {})

        await eventually(waits_in_the_middle, describe="the right branch is shown as done")
        records = (await gateway.get(run_id, include="records"))["task_records"]
        assert records["end"] == {"after": ["left", "right"]}
        assert "ended_at" not in records["left"]
        release.touch()
        await gateway.ends(run_id)


async def test_a_run_that_loses_its_executor_keeps_its_last_records(
    gateway: RunningGateway, config: NatsBackendConfig, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    async with serving_worker(config):
        params = {"path": str(tmp_path / "never"), "started": str(started)}
        run_id = await gateway.submit("waiting", params=params)

        async def is_shown() -> bool:
            run = await gateway.get(run_id, include="records")
            return "started_at" in run["task_records"].get("wait_for_file", {})

        await eventually(is_shown, describe="the task is shown as started")
        # A task is shown as started before its function is called.
        os.kill(await started_pid(started), signal.SIGKILL)
        run = await gateway.ends(run_id)
    assert (run["status"], run["reason"]) == ("FAILED", "executor_crashed")
    assert run["tasks"] == {"wait_for_file": "FAILED"}
    assert run["task_records"]["wait_for_file"].keys() == {"started_at"}
