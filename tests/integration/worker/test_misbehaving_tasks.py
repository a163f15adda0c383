"""Tasks that crash or damage their executor: they affect their own run, and no other run or worker."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.worker.session import run_session
from tests.integration.worker.conftest import OwnQueue
from tests.support.inspection import dead_letters, queue_is_empty, started_pid
from tests.support.places import FLOWS
from tests.support.processes import is_alive
from tests.support.running.gateway import RunningGateway
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def output_of(gateway: RunningGateway, flow: str, task: str, **fields: Any) -> Any:
    run = await gateway.run(flow, **fields)
    assert run["status"] == "COMPLETED", run["error"]
    return run["task_records"][task]["output"]


@pytest.mark.parametrize(("flow", "says"), [("crashing", "SIGSEGV"), ("vanishing", "exited with code 7")])
async def test_a_crash_is_reported_with_its_cause(served: RunningGateway, flow: str, says: str) -> None:
    run = await served.run(flow)
    assert (run["status"], run["reason"]) == ("FAILED", "executor_crashed")
    assert says in run["error"]
    if flow == "crashing":
        assert "in crash" in run["error"]
    assert (await served.run("noop"))["status"] == "COMPLETED"
    reasons = [each["reason"] for each in await dead_letters(served) if each["run_id"] == run["run_id"]]
    assert reasons == ["executor_crashed"]
    assert await eventually(lambda: queue_is_empty(served), describe="the queue is empty")


async def test_a_killed_executor_is_noticed_even_if_a_forked_child_survives(
    served: RunningGateway, tmp_path: Path
) -> None:
    marker = tmp_path / "started"
    run_id = await served.submit("forking", params={"started": str(marker)})
    os.kill(await started_pid(marker), signal.SIGKILL)
    run = await served.ends(run_id)
    assert (run["status"], run["reason"]) == ("FAILED", "executor_crashed")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_to_the_whole_service_does_not_end_a_run(
    served: RunningGateway, tmp_path: Path, number: signal.Signals
) -> None:
    release, marker = tmp_path / "release", tmp_path / "started"
    run_id = await served.submit("waiting", params={"path": str(release), "started": str(marker)})
    os.kill(await started_pid(marker), number)
    release.touch()
    assert (await served.ends(run_id))["status"] == "COMPLETED"


async def test_a_crash_does_not_report_the_output_of_an_earlier_run(
    served: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    await served.run("speaking", params={"text": "the password of run A"})
    run = await served.run("vanishing")
    assert "password of run A" not in run["error"]
    assert "password of run A" not in caplog.text


@pytest.mark.parametrize(("flow", "task"), [("closing", "close_stdout"), ("threading", "leave_a_thread")])
async def test_a_run_that_damages_its_executor_does_not_affect_later_runs(
    served: RunningGateway, flow: str, task: str
) -> None:
    damaged = await output_of(served, flow, task)
    run = await served.run("speaking")
    assert run["status"] == "COMPLETED", run["error"]
    assert run["task_records"]["speak"]["stdout"] == "hello\n"
    assert await output_of(served, "pid", "pid") != damaged
    assert not (Path(served.inside.config.run_dir) / f".spare-{damaged}").exists()


async def test_texts_that_are_not_utf_8_are_escaped(served: RunningGateway) -> None:
    assert (await served.run("speaking", params={"text": "bad"}))["status"] == "COMPLETED"
    failed = await served.run("strange")
    assert failed["reason"] == "execution_error"
    assert failed["error"] == "task fail_strangely: ValueError: a file named \\udcff"
    assert "no words" not in str(await output_of(served, "unspeakable", "unspeakable"))


@pytest.mark.parametrize("then", ["crash", "return"])
async def test_subprocesses_of_a_task_end_with_its_executor(
    own_queue: OwnQueue, tmp_path: Path, then: str
) -> None:
    pid_file = tmp_path / "pid"
    async with own_queue.worker():
        run = await own_queue.run("parent", params={"pid_file": str(pid_file), "then": then})
        assert run["status"] == ("FAILED" if then == "crash" else "COMPLETED")
        assert (await own_queue.run("noop"))["status"] == "COMPLETED"
    pid = int(pid_file.read_text())
    await eventually(lambda: not is_alive(pid), describe="the grandchild has ended")


async def test_a_run_directory_that_cannot_be_created_fails_the_run(
    own_queue: OwnQueue, tmp_path: Path
) -> None:
    blocked = tmp_path / "a-file"
    blocked.touch()
    async with own_queue.worker(run_dir=str(blocked / "runs")):
        run = await own_queue.run("noop")
    assert run["status"] == "FAILED"
    assert run["error"].startswith("the executor could not run the flow: NotADirectoryError")


async def test_progress_is_stored_even_if_preparing_the_flow_takes_long(
    own_queue: OwnQueue, tmp_path: Path
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
    gateway = own_queue.gateway
    async with own_queue.worker(flows=folder):
        run_id = (await gateway.submit_yaml(source, tag=own_queue.tag)).json()["run_id"]
        await gateway.task_runs(run_id, "w")
        release.touch()
        assert (await gateway.ends(run_id))["status"] == "COMPLETED"


async def test_runs_of_a_worker_that_cannot_start_executors_move_to_others(
    own_queue: OwnQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_session, "_FIRST_DELAY_SEC", 0.2)
    folder = tmp_path / "flows"
    folder.symlink_to(FLOWS)
    async with own_queue.worker("broken", flows=folder):
        pid = await output_of(own_queue.gateway, "pid", "pid", tag=own_queue.tag)
        folder.unlink()
        os.kill(pid, signal.SIGKILL)
        run_id = await own_queue.submit("noop")
        async with own_queue.worker("healthy"):
            run = await own_queue.gateway.ends(run_id)
            assert (run["status"], run["worker_id"]) == ("COMPLETED", "healthy")
