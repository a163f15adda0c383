"""A worker that finds its run ended knows whether that was its own write."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.run_models import Reason, RunSnapshot, RunStatus, TaskStatus
from pyoco_server.runs.lifecycle.unowned_runs import Ending, UnownedRuns
from tests.support.inspection import dead_letters, queue_is_empty, worker_record
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually


async def status_of_last_run(gateway: RunningGateway, run_id: str) -> str | None:
    """The run in the worker's record, after the worker is done with it."""

    async def has_left() -> bool:
        return (await worker_record(gateway)).last_run_id == run_id

    await eventually(has_left, describe="the run has left its worker")
    return (await worker_record(gateway)).last_run_status


async def test_an_end_by_the_sweep_is_not_the_workers_own(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    """The worker was paused, the sweep ended its run, and the worker completed it."""
    release = tmp_path / "release"
    # The worker finds out only at its end.
    slow = replace(config, run_heartbeat_interval_sec=600.0, consumer_ack_wait_sec=600.0)
    unowned_runs = UnownedRuns(gateway.inside.connection)
    async with serving_worker(slow):
        run_id = await gateway.submit("waiting", params={"path": str(release)})

        async def task_is_stored() -> bool:
            stored = await unowned_runs.stored(run_id)
            return stored is not None and stored.snapshot.tasks == {"wait_for_file": TaskStatus.RUNNING}

        await eventually(task_is_stored, describe="its task is in the snapshot")
        stored = await unowned_runs.stored(run_id)
        assert stored is not None
        assert await unowned_runs.end(stored, Ending(RunStatus.FAILED, Reason.TIMEOUT, "silent for too long"))
        release.touch()
        assert await status_of_last_run(gateway, run_id) is None
    assert [letter["reason"] for letter in await dead_letters(gateway)] == ["timeout"]
    assert (await gateway.get(run_id))["error"] == "silent for too long"


@pytest.mark.parametrize("flow", ["noop", "failing"])
async def test_an_end_with_a_lost_ack_is_the_workers_own(
    config: NatsBackendConfig, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, flow: str
) -> None:
    async with serving_worker(config) as worker:
        store = worker._services.store
        write = store.replace
        lost = 0

        async def lose_the_answer(snapshot: RunSnapshot, **options: Any) -> int:
            nonlocal lost
            revision = await write(snapshot, **options)
            if snapshot.status.terminal and not lost:
                lost += 1
                raise NatsUnavailable("no response")
            return revision

        monkeypatch.setattr(store, "replace", lose_the_answer)
        run_id = await gateway.submit(flow)
        ended = await gateway.ends(run_id)
        assert await status_of_last_run(gateway, run_id) == ended["status"]
        await eventually(lambda: queue_is_empty(gateway), describe="its message is acked")
    assert lost == 1
    assert [letter["reason"] for letter in await dead_letters(gateway)] == (
        [] if flow == "noop" else ["execution_error"]
    )
