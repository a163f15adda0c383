"""A run that is ended from outside, at the moment when it ends by itself or is between two executors."""

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker.executors.executor_pool import ExecutorPool, Turn
from pyoco_server.worker.executors.process_executor import ProcessExecutor
from pyoco_server.worker.ipc.protocol import Run, Setup
from pyoco_server.worker.session.cancellation import Cancellation
from pyoco_server.worker.session.run_limit import RunLimit
from tests.support.inspection import started_pid
from tests.support.places import FLOWS
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.samples.explain_facts import running
from tests.support.waiting import LIMIT_SEC, eventually

NOBODY: Any = SimpleNamespace(finished=lambda _: None, asked=lambda _: None, printed=lambda _: None)


async def test_a_flow_that_stops_just_before_it_is_ended_by_force_has_stopped_by_itself(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancel, give_up = Turn.cancel, Turn.give_up
    asked: list[str] = []

    async def stop_and_give_up(turn: Turn, status: str, error: str) -> None:
        cancel(turn, asked[0])
        await eventually(lambda: not turn._is_under_way, describe="the flow has stopped")
        await give_up(turn, status, error)

    monkeypatch.setattr(Turn, "cancel", lambda _, run_id: asked.append(run_id))
    monkeypatch.setattr(Turn, "give_up", stop_and_give_up)
    marker = tmp_path / "started"
    async with serving_worker(replace(config, cancel_grace_period_sec=0.0)):
        run_id = await gateway.submit("waiting", params={"path": str(tmp_path / "x"), "started": str(marker)})
        await started_pid(marker)
        await gateway.http.post(f"/runs/{run_id}/cancel")
        run = await gateway.ends(run_id)
        assert (run["status"], run["reason"], run["error"]) == ("CANCELLED", None, None)


@pytest.mark.parametrize("how", ["cancelled", "given up"])
async def test_a_run_that_is_ended_between_two_executors_is_not_executed_again(
    tmp_path: Path, how: str
) -> None:
    setup = Setup.from_config(NatsBackendConfig(), flows=str(FLOWS))
    # The executor leaves its first run, which then goes on in another one.
    setup.max_silence_sec = 0.5
    executor = ProcessExecutor(setup)
    marker = tmp_path / "started"
    params = msgspec.json.encode({"path": str(tmp_path / "never"), "started": str(marker)})
    run = Run(run_id="r", flow_name="waiting", params=params)
    pool = ExecutorPool([executor], allowance=0)
    try:
        async with asyncio.timeout(LIMIT_SEC):
            with await pool.turn() as turn:
                assert (await turn.execute(run, NOBODY)).go_on
                marker.unlink()
                if how == "cancelled":
                    turn.cancel("r")
                else:
                    await turn.give_up("FAILED", "too long")
                outcome = await turn.execute(run, NOBODY)
        expected = ("CANCELLED", None) if how == "cancelled" else ("FAILED", "too long")
        assert (outcome.status, outcome.error) == expected
        assert not marker.exists()
    finally:
        await executor.abandon()
        await executor.close()


class GivingUp:
    """An executor that counts how often it is asked to give its run up, and has none to give up."""

    def __init__(self) -> None:
        self.times = 0

    def cancel(self, run_id: str) -> None: ...

    async def give_up(self, status: str, error: str) -> None:
        self.times += 1


async def test_a_run_past_its_limit_is_given_up_until_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    """Once is not enough: it may be between two executors."""
    executor: Any = GivingUp()
    owned: Any = SimpleNamespace(snapshot=running(timeout_sec=60.0), used_sec=61.0)
    limit = RunLimit(owned, executor)
    for _ in range(3):
        await limit.pursue()
    assert executor.times == 3
    assert len(caplog.records) == 1


async def test_a_run_that_does_not_stop_is_given_up_until_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    executor: Any = GivingUp()
    cancellation = Cancellation(executor, grace_sec=-1.0)
    for _ in range(4):
        await cancellation.pursue(running(cancel_requested_at=1.0))
    assert executor.times == 3
    assert len(caplog.records) == 1
