"""A run that is killed while it ends by itself, or between two executors."""

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker.executors.executor_pool import ExecutorLease, ExecutorPool
from pyoco_server.worker.session.cancel_and_time_limit import Cancellation, RunTimeLimit
from tests.support.inspection import started_pid
from tests.support.running.executors import NO_EVENTS, new_run, started_executor
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.samples.explain_facts import running
from tests.support.waiting import LIMIT_SEC, NEVER_SEC, eventually


async def test_a_flow_that_stops_before_the_kill_is_not_forced(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancel, force_end = ExecutorLease.cancel, ExecutorLease.force_end
    requested: list[str] = []

    async def stop_then_force(lease: ExecutorLease, status: str, error: str) -> None:
        cancel(lease, requested[0])
        await eventually(lambda: not lease.is_current, describe="the flow has stopped")
        await force_end(lease, status, error)

    monkeypatch.setattr(ExecutorLease, "cancel", lambda _, run_id: requested.append(run_id))
    monkeypatch.setattr(ExecutorLease, "force_end", stop_then_force)
    marker = tmp_path / "started"
    async with serving_worker(replace(config, cancel_grace_period_sec=0.0)):
        run_id = await gateway.submit("waiting", params={"path": str(tmp_path / "x"), "started": str(marker)})
        await started_pid(marker)
        await gateway.http.post(f"/runs/{run_id}/cancel")
        run = await gateway.ends(run_id)
        assert (run["status"], run["reason"], run["error"]) == ("CANCELLED", None, None)


@pytest.mark.parametrize("how", ["cancelled", "forced"])
async def test_a_run_ended_between_executors_is_not_executed_again(tmp_path: Path, how: str) -> None:
    marker = tmp_path / "started"
    run = new_run("waiting", path=str(tmp_path / "never"), started=str(marker))
    # The executor exits during its first run, which must then resume in another one.
    async with started_executor(max_silence_sec=0.5) as executor, asyncio.timeout(LIMIT_SEC):
        with await ExecutorPool([executor], allowance=0).reserve() as lease:
            assert (await lease.execute(run, NO_EVENTS)).must_continue
            marker.unlink()
            if how == "cancelled":
                lease.cancel("r")
            else:
                await lease.force_end("FAILED", "too long")
            outcome = await lease.execute(run, NO_EVENTS)
        expected = ("CANCELLED", None) if how == "cancelled" else ("FAILED", "too long")
        assert (outcome.status, outcome.error) == expected
        assert not marker.exists()


class CountingExecutor:
    """Counts how often its run is killed."""

    def __init__(self) -> None:
        self.times = 0

    def cancel(self, run_id: str) -> None: ...

    async def force_end(self, status: str, error: str) -> None:
        self.times += 1


async def test_a_run_past_its_limit_is_killed(caplog: pytest.LogCaptureFixture) -> None:
    """It may be between two executors at first."""
    executor: Any = CountingExecutor()
    owned: Any = SimpleNamespace(snapshot=running(timeout_sec=60.0), used_sec=61.0)
    limit = RunTimeLimit(owned, executor)
    for _ in range(3):
        await limit.enforce()
    assert executor.times == 3
    assert len(caplog.records) == 1


async def test_a_forced_cancel_has_no_grace_period(caplog: pytest.LogCaptureFixture) -> None:
    executor: Any = CountingExecutor()
    cancellation = Cancellation(executor, grace_sec=NEVER_SEC)
    await cancellation.enforce(running(cancel_requested_at=1.0))
    assert (executor.times, cancellation.forced) == (0, False)
    await cancellation.enforce(running(cancel_requested_at=1.0, cancel_force=True))
    assert (executor.times, cancellation.forced) == (1, True)
    assert "as the cancel requested" in cancellation.error
    # Nothing went wrong.
    assert caplog.records == []


async def test_a_run_that_does_not_stop_is_killed(caplog: pytest.LogCaptureFixture) -> None:
    executor: Any = CountingExecutor()
    cancellation = Cancellation(executor, grace_sec=-1.0)
    for _ in range(4):
        await cancellation.enforce(running(cancel_requested_at=1.0))
    assert executor.times == 3
    assert len(caplog.records) == 1
