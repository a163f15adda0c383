"""kill -9 of a worker while it uploads the files of a run: another one continues it, with its files."""

from dataclasses import replace
from pathlib import Path

import pytest

from pyoco_server.config import NatsBackendConfig
from tests.support.places import FLOWS, ROOT
from tests.support.programs import announcing
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually

# Of each file: that its upload has begun, its bytes, its record.
OF_FIRST_FILE = (1, 2, 3)
OF_SECOND_FILE = (4, 5, 6)


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    """A message comes again soon after its worker has died."""
    return replace(config, consumer_ack_wait_sec=1.0, ack_progress_interval_sec=0.3)


@pytest.mark.parametrize("at", [*OF_FIRST_FILE, *OF_SECOND_FILE])
async def test_a_run_continues_elsewhere_with_its_files(
    at: int, config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    release.touch()
    arguments = (f"upload {at}", "--flows", str(FLOWS), "--worker-id", "dying", "--nats-url", config.nats_url)
    settings = {
        "PYOCO_RUN_DIR": str(tmp_path / "dying"),
        "PYOCO_CONSUMER_ACK_WAIT_SEC": str(config.consumer_ack_wait_sec),
        "PYOCO_ACK_PROGRESS_INTERVAL_SEC": str(config.ack_progress_interval_sec),
    }
    program = "tests.support.running.crashing_worker"
    with announcing(program, *arguments, cwd=ROOT, **settings) as (dying, _):
        run_id = await gateway.submit("failing-after-files", params={"release": str(release)})
        await eventually(lambda: dying.process.poll() is not None, describe="the worker has died")
    assert not (await gateway.get(run_id)).get("end_time")
    async with serving_worker(replace(config, run_dir=str(tmp_path / "heir")), worker_id="heir"):
        run = await gateway.ends(run_id)
    assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "heir", 2)
    assert run["task_records"]["second"]["output"]["first.txt"] == "of the first task"
    # What is finished is not executed again: its file comes from NATS.
    assert run["task_records"]["first"].get("replayed", False) is (at in OF_SECOND_FILE)
    listed = (await gateway.http.get(f"/runs/{run_id}/artifacts")).json()
    assert [(each["name"], each["task"]) for each in listed["artifacts"]] == [
        ("first.txt", "first"),
        ("second.txt", "second"),
    ]
    assert (listed["left_out_count"], run["artifacts"]["count"]) == (0, 2)
