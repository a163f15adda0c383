"""kill -9 of a worker that stores a large output: nothing of it is visible, and the next attempt works."""

import signal
from dataclasses import replace

import pytest

from pyoco_server.broker.stores.runs.run_object_store import RunObjects
from pyoco_server.config import NatsBackendConfig
from tests.faults.test_wait_worker_crashes import crashing_worker
from tests.support.problems import assert_problem
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker

SIZE = 5_000_000
CONTENT = bytes(range(256)) * (SIZE // 256) + b"x" * (SIZE % 256)


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    """A message comes again soon after its worker has died."""
    return replace(config, consumer_ack_wait_sec=1.0, ack_progress_interval_sec=0.3)


@pytest.mark.parametrize(("point", "visible"), [("output part stored", 0), ("output stored", 1)])
async def test_the_next_attempt_stores_the_output_again(
    config: NatsBackendConfig, gateway: RunningGateway, point: str, visible: int
) -> None:
    run_id = await gateway.submit("returning-bytes", params={"size": SIZE})
    with crashing_worker(config, point) as worker:
        assert worker.end() == -signal.SIGKILL
    objects = RunObjects(gateway.inside.connection)
    assert len(await objects.entries("default", run_id)) == visible
    before = await gateway.get(run_id)
    assert before["status"] == "RUNNING"
    assert "result" not in before
    assert_problem(await gateway.http.get(f"/runs/{run_id}/result"), 404, 71)
    async with serving_worker(config, worker_id="heir"):
        run = await gateway.ends(run_id)
    assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "heir", 2)
    assert (await gateway.http.get(f"/runs/{run_id}/result")).content == CONTENT
    named = run["task_records"]["give_bytes"]["output_object"]["name"]
    assert named.startswith("output/2/"), "each attempt has names of its own"
    await objects.drop_abandoned(older_than_sec=0.0)
    assert (await gateway.http.get(f"/runs/{run_id}/result")).content == CONTENT
    stored = await objects.entries("default", run_id)
    assert len(stored) == visible + 1
    info = await gateway.inside.connection.client.jetstream().stream_info(
        "PYOCO_OBJECTS", subjects_filter=">"
    )
    parts = [subject for subject in info.state.subjects or {} if run_id in subject]
    expected = sum(1 + -(-each.bytes // each.part_bytes) for each in stored)
    assert len(parts) == expected, "nothing is left of the interrupted upload"
