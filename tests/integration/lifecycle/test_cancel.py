"""Cancelling: every request converges, and an ended run never changes."""

import asyncio
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from tests.flows import basics, durable
from tests.support.inspection import claimed_by, queue_is_empty, started_pid
from tests.support.problems import assert_problem
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import idle_worker, serving_worker
from tests.support.waiting import LIMIT_SEC, NEVER_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def cancel(gateway: RunningGateway, run_id: str, **body: Any) -> dict[str, Any]:
    response = await gateway.http.post(f"/runs/{run_id}/cancel", json=body) if body else None
    response = response or await gateway.http.post(f"/runs/{run_id}/cancel")
    assert response.status_code == 200, response.text
    run: dict[str, Any] = response.json()
    return run


async def last_task_runs(gateway: RunningGateway, run_id: str) -> None:
    """The task of `holding-twice` that ignores a cancel until its file exists."""

    async def there() -> bool:
        return bool((await gateway.get(run_id))["tasks"].get("hold_again") == "RUNNING")

    await eventually(there, describe="the last task runs")


async def test_a_cooperative_task_stops_at_the_notification(
    config: NatsBackendConfig, own_gateway: RunningGateway, tmp_path: Path
) -> None:
    marker = tmp_path / "started"
    lazy = replace(config, run_heartbeat_interval_sec=NEVER_SEC)
    async with serving_worker(lazy):
        run_id = await own_gateway.submit(
            "waiting", params={"path": str(tmp_path / "x"), "started": str(marker)}
        )
        await started_pid(marker)
        asked_at = time.time()
        response = await cancel(own_gateway, run_id, reason="not needed any more")
        assert response["status"] == "CANCELLING"
        assert response["cancel_requested_at"] >= asked_at
        run = await own_gateway.ends(run_id)
        assert run["status"] == "CANCELLED"
        assert run["cancel_reason"] == "not needed any more"
        assert await eventually(lambda: queue_is_empty(own_gateway), describe="the job is acked")


async def test_a_task_that_ignores_the_cancel_is_killed_after_the_grace_period(
    config: NatsBackendConfig, own_gateway: RunningGateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    counter = tmp_path / "began"
    async with serving_worker(replace(config, cancel_grace_period_sec=0.5)):
        run_id = await own_gateway.submit("counting", params={"counter": str(counter), "seconds": 600})
        await eventually(counter.exists, describe="the task began")
        await cancel(own_gateway, run_id)
        run = await own_gateway.ends(run_id)
        assert (run["status"], run["reason"]) == ("CANCELLED", "cancel_forced")
        assert run["tasks"] == {"count_and_sleep": "CANCELLED"}
        assert any(getattr(record, "err_id", "") == "ERR-PYOCO-0021" for record in caplog.records)
        assert (await own_gateway.ends(await own_gateway.submit("noop")))["status"] == "COMPLETED"


async def test_an_embedded_flow_that_ignores_the_cancel_is_abandoned(
    config: NatsBackendConfig, own_gateway: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where pyoco makes the artifacts folder of an embedded flow
    one, other = tmp_path / "one", tmp_path / "other"
    one.touch()
    quick = replace(config, cancel_grace_period_sec=0.2)
    try:
        async with idle_worker(quick, durable.holding_twice) as worker:
            run_id = await own_gateway.submit("holding-twice", params={"one": str(one), "other": str(other)})
            handling = asyncio.create_task(worker.run_once(timeout=LIMIT_SEC))
            await last_task_runs(own_gateway, run_id)
            await cancel(own_gateway, run_id)
            assert await handling == run_id
    finally:
        other.touch()
    run = await own_gateway.get(run_id)
    assert (run["status"], run["reason"]) == ("CANCELLED", "cancel_forced")


async def test_a_pending_run_is_cancelled_without_any_worker_and_never_executed(
    config: NatsBackendConfig, own_gateway: RunningGateway, tmp_path: Path
) -> None:
    counter = tmp_path / "executions"
    run_id = await own_gateway.submit("counting", params={"counter": str(counter), "seconds": 0})
    assert (await cancel(own_gateway, run_id))["status"] == "CANCELLING"
    assert (await own_gateway.ends(run_id))["status"] == "CANCELLED"
    async with serving_worker(config):
        assert await eventually(lambda: queue_is_empty(own_gateway), describe="the job is dropped")
    assert not counter.exists()


async def test_cancelling_an_ended_run_changes_nothing(working_gateway: RunningGateway) -> None:
    for flow, status in (("noop", "COMPLETED"), ("failing", "FAILED")):
        ended = await working_gateway.ends(await working_gateway.submit(flow))
        response = await cancel(working_gateway, ended["run_id"])
        assert (response["status"], response["updated_at"]) == (status, ended["updated_at"])
        assert response["cancel_requested_at"] is None


async def test_a_second_cancel_changes_nothing(working_gateway: RunningGateway, tmp_path: Path) -> None:
    marker = tmp_path / "started"
    run_id = await working_gateway.submit(
        "waiting", params={"path": str(tmp_path / "x"), "started": str(marker)}
    )
    await started_pid(marker)
    first, second = await asyncio.gather(
        cancel(working_gateway, run_id, reason="one"), cancel(working_gateway, run_id, reason="two")
    )
    run = await working_gateway.ends(run_id)
    assert run["status"] == "CANCELLED"
    assert run["cancel_reason"] in {"one", "two"}
    assert (await cancel(working_gateway, run_id))["cancel_reason"] == run["cancel_reason"]
    assert {first["status"], second["status"]} <= {"CANCELLING", "CANCELLED"}


async def test_a_cancel_that_races_the_end_of_a_run_converges(working_gateway: RunningGateway) -> None:
    run_ids = [await working_gateway.submit("noop") for _ in range(60)]
    await asyncio.gather(*(cancel(working_gateway, run_id) for run_id in reversed(run_ids)))
    ended = [await working_gateway.ends(run_id) for run_id in run_ids]
    assert {run["status"] for run in ended} <= {"COMPLETED", "CANCELLED"}
    for run in ended:
        assert (run["status"] == "CANCELLED") == (run["cancel_requested_at"] is not None)
    assert await eventually(lambda: queue_is_empty(working_gateway), describe="no job is left")
    again = [await working_gateway.get(run["run_id"]) for run in ended]
    assert [run["status"] for run in again] == [run["status"] for run in ended]


async def test_a_cancel_during_the_last_task_ends_the_run_although_the_task_completes(
    working_gateway: RunningGateway, tmp_path: Path
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.touch()
    run_id = await working_gateway.submit("holding-twice", params={"one": str(one), "other": str(other)})

    await last_task_runs(working_gateway, run_id)
    assert (await cancel(working_gateway, run_id))["status"] == "CANCELLING"
    other.touch()
    run = await working_gateway.ends(run_id)
    assert (run["status"], run["reason"]) == ("CANCELLED", None)
    assert run["tasks"]["hold_again"] == "SUCCEEDED"
    assert await eventually(lambda: queue_is_empty(working_gateway), describe="the job is acked")


async def test_a_run_whose_worker_died_is_cancelled_by_the_next_one_without_executing_it(
    config: NatsBackendConfig, own_gateway: RunningGateway, tmp_path: Path
) -> None:
    counter = tmp_path / "executions"
    config = replace(config, consumer_ack_wait_sec=1.0, ack_progress_interval_sec=0.3)
    async with idle_worker(config, basics.noop_flow, worker_id="lost") as lost:
        run_id = await own_gateway.submit("counting", params={"counter": str(counter), "seconds": 0})
        await claimed_by(lost)
        assert (await cancel(own_gateway, run_id))["status"] == "CANCELLING"
        async with serving_worker(config, worker_id="next"):
            run = await own_gateway.ends(run_id)
    assert (run["status"], run["worker_id"]) == ("CANCELLED", "next")
    assert not counter.exists()


async def test_invalid_cancels_are_refused(shared_gateway: RunningGateway) -> None:
    run_id = await shared_gateway.submit("noop")
    for no_run in ("nope", f"{os.urandom(4).hex()}.*", "*", ">"):
        assert_problem(await shared_gateway.http.post(f"/runs/{no_run}/cancel"), 404, 5)
    for body in (b"{", b"[]", b'{"reason": 5}', b'{"resaon": "typo"}', b'{"reason": "' + b"x" * 2000 + b'"}'):
        assert_problem(await shared_gateway.http.post(f"/runs/{run_id}/cancel", content=body), 422, 2)
    assert (await shared_gateway.get(run_id))["status"] == "PENDING"
