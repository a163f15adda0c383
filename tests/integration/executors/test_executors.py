"""Tasks that misbehave: they affect their own run, and no other run or worker."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker.session import run_session
from tests.support.inspection import started_pid
from tests.support.places import FLOWS
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually


async def output_of(gateway: RunningGateway, flow: str, task: str, **params: Any) -> Any:
    run = await gateway.ends(await gateway.submit(flow, params=params))
    assert run["status"] == "COMPLETED", run["error"]
    return run["task_records"][task]["output"]


async def test_a_killed_executor_is_noticed_even_if_a_forked_child_survives(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    marker = tmp_path / "started"
    async with serving_worker(config):
        run_id = await gateway.submit("forking", params={"started": str(marker)})
        os.kill(await started_pid(marker), signal.SIGKILL)
        run = await gateway.ends(run_id)
        assert (run["status"], run["reason"]) == ("FAILED", "executor_crashed")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_to_the_whole_service_does_not_end_a_run(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path, number: signal.Signals
) -> None:
    release, marker = tmp_path / "release", tmp_path / "started"
    async with serving_worker(config):
        run_id = await gateway.submit("waiting", params={"path": str(release), "started": str(marker)})
        os.kill(await started_pid(marker), number)
        release.touch()
        assert (await gateway.ends(run_id))["status"] == "COMPLETED"


async def test_a_crash_does_not_report_the_output_of_an_earlier_run(
    config: NatsBackendConfig, gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving_worker(config):
        await gateway.ends(await gateway.submit("speaking", params={"text": "the password of run A"}))
        run = await gateway.ends(await gateway.submit("vanishing"))
        assert "password of run A" not in run["error"]
        assert "password of run A" not in caplog.text


@pytest.mark.parametrize(("flow", "task"), [("closing", "close_stdout"), ("threading", "leave_a_thread")])
async def test_a_run_that_damages_its_executor_does_not_affect_later_runs(
    config: NatsBackendConfig, gateway: RunningGateway, flow: str, task: str
) -> None:
    async with serving_worker(config):
        must_restart = await output_of(gateway, flow, task)
        run = await gateway.ends(await gateway.submit("speaking"))
        assert run["status"] == "COMPLETED", run["error"]
        assert run["task_records"]["speak"]["stdout"] == "hello\n"
        assert await output_of(gateway, "pid", "pid") != must_restart
        assert not (Path(config.run_dir) / f".spare-{must_restart}").exists()


async def test_texts_that_are_not_utf_8_are_escaped(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(config):
        spoken = await gateway.ends(await gateway.submit("speaking", params={"text": "bad"}))
        assert spoken["status"] == "COMPLETED"
        failed = await gateway.ends(await gateway.submit("strange"))
        assert failed["reason"] == "execution_error"
        assert failed["error"] == "task fail_strangely: ValueError: a file named \\udcff"
        assert "no words" not in str(await output_of(gateway, "unspeakable", "unspeakable"))


async def test_a_run_directory_that_cannot_be_created_fails_the_run(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    blocked = tmp_path / "a-file"
    blocked.touch()
    async with serving_worker(replace(config, run_dir=str(blocked / "runs"))):
        run = await gateway.ends(await gateway.submit("noop"))
        assert run["status"] == "FAILED"
        assert run["error"].startswith("the executor could not run the flow: NotADirectoryError")


async def test_progress_is_stored_even_if_preparing_the_flow_takes_long(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    folder = tmp_path / "flows"
    folder.mkdir()
    lines = ["import time", "from tests.flows.basics import wait_for_file", "time.sleep(0.5)"]
    (folder / "_slow_module.py").write_text("\n".join(lines))
    source = (
        f"version: 1\nflow: {{graph: w, defaults: {{path: '{release}'}}}}\n"
        "tasks:\n  w: {callable: '_slow_module:wait_for_file'}\n"
    )
    async with serving_worker(config, flows=folder):
        run_id = (await gateway.submit_yaml(source)).json()["run_id"]

        async def task_is_running() -> bool:
            return bool((await gateway.get(run_id))["tasks"] == {"w": "RUNNING"})

        await eventually(task_is_running, describe="the task is seen RUNNING")
        release.touch()
        assert (await gateway.ends(run_id))["status"] == "COMPLETED"


async def test_runs_of_a_worker_that_cannot_start_executors_move_to_others(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_session, "_FIRST_DELAY_SEC", 0.2)
    folder = tmp_path / "flows"
    folder.symlink_to(FLOWS)
    async with serving_worker(config, worker_id="broken", flows=folder):
        pid = await output_of(gateway, "pid", "pid")
        folder.unlink()
        os.kill(pid, signal.SIGKILL)
        run_id = await gateway.submit("noop")
        async with serving_worker(config, worker_id="healthy"):
            run = await gateway.ends(run_id)
            assert (run["status"], run["worker_id"]) == ("COMPLETED", "healthy")


async def test_tasks_are_in_the_order_of_the_flow(config: NatsBackendConfig, gateway: RunningGateway) -> None:
    async with serving_worker(config):
        run = await gateway.ends(await gateway.submit("wide"))
        assert list(run["tasks"]) == [f"part_{number}" for number in range(40)]
