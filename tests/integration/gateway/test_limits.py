"""Timeouts of tasks and runs, and retries of tasks."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.config import NatsBackendConfig
from pyoco_server.runs.lifecycle.ownership import OwnedRun
from pyoco_server.worker import PyocoNatsWorker
from tests.flows import durable
from tests.support.inspection import queue_is_empty, started_pid
from tests.support.processes import is_alive
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import LIMIT_SEC, eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("shared_worker")]


@pytest.mark.parametrize("flow", ["slow-task", "slow-loop"])
async def test_a_task_past_its_limit_is_really_ended_and_its_run_has_failed(
    shared_gateway: RunningGateway, tmp_path: Path, flow: str
) -> None:
    # A renamed field would make every test of a limit vain.
    assert {task.timeout_sec for task in durable.slow_task.tasks} == {None, 0.4}
    marker = tmp_path / "started"
    run_id = await shared_gateway.submit(flow, params={"started": str(marker)})
    pid = await started_pid(marker)
    run = await shared_gateway.ends(run_id)
    assert (run["status"], run["reason"]) == ("FAILED", "timeout")
    assert run["error"] == "task slow: it took longer than its limit of 0.4 s"
    assert run["tasks"]["slow"] == "FAILED"
    assert run["tasks"].get("quick", "SUCCEEDED") == "SUCCEEDED"
    assert run["task_records"]["slow"]["error"] == "it took longer than its limit of 0.4 s"
    await eventually(lambda: not is_alive(pid), describe="the executor is gone")
    assert (await shared_gateway.ends(await shared_gateway.submit("noop")))["status"] == "COMPLETED"
    await eventually(lambda: queue_is_empty(shared_gateway), describe="the queue is empty")


async def test_a_task_that_holds_the_gil_is_ended_at_its_limit_too(shared_gateway: RunningGateway) -> None:
    run = await shared_gateway.ends(await shared_gateway.submit("deaf-task"))
    assert (run["status"], run["reason"]) == ("FAILED", "timeout")
    assert run["error"] == "task deaf: it took longer than its limit of 0.3 s"
    assert (await shared_gateway.ends(await shared_gateway.submit("noop")))["status"] == "COMPLETED"


async def test_a_flow_continues_without_an_isolated_task_that_is_stuck(
    shared_gateway: RunningGateway, tmp_path: Path
) -> None:
    """Also when the task holds the GIL."""
    book = tmp_path / "book"
    run = await shared_gateway.ends(
        await shared_gateway.submit("slow-but-isolated", params={"book": str(book)})
    )
    assert run["status"] == "COMPLETED", run["error"]
    assert run["tasks"] == {"slow": "FAILED", "first": "SUCCEEDED", "second": "SUCCEEDED"}
    assert "longer than its limit" in run["task_records"]["slow"]["error"]
    assert sorted(book.read_text().splitlines()) == ["first", "second"]
    deaf = await shared_gateway.ends(
        await shared_gateway.submit("deaf-but-isolated", params={"book": str(book)})
    )
    assert (deaf["status"], deaf["tasks"]) == ("COMPLETED", {"deaf": "FAILED", "other": "SUCCEEDED"})


async def test_a_run_timeout_keeps_the_completed_tasks(
    shared_gateway: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "started"
    run_id = await shared_gateway.submit("hanging", params={"started": str(marker)}, timeout_sec=60)
    pid = await started_pid(marker)
    # Not a short limit: it could pass before the run has come so far.
    monkeypatch.setattr(OwnedRun, "used_sec", 60.0)
    run = await shared_gateway.ends(run_id)
    assert (run["status"], run["reason"]) == ("FAILED", "timeout")
    assert run["error"] == "the run took longer than its limit of 60 s"
    assert run["tasks"] == {"quick": "SUCCEEDED", "hang": "FAILED"}
    assert run["task_records"]["quick"]["output"] == "done"
    await eventually(lambda: not is_alive(pid), describe="the executor is gone")


async def test_a_limit_counts_from_the_start_of_its_task_however_long_it_waited_for_a_thread(
    shared_gateway: RunningGateway,
) -> None:
    run = await shared_gateway.ends(await shared_gateway.submit("wide-with-limits"))
    assert run["status"] == "COMPLETED", run["error"]


async def test_nothing_is_started_after_a_cancel_though_a_limit_falls_due(
    shared_gateway: RunningGateway, tmp_path: Path
) -> None:
    book, marker = tmp_path / "book", tmp_path / "started"
    params = {"book": str(book), "release": str(tmp_path / "release"), "started": str(marker)}
    run_id = await shared_gateway.submit("cancelled-at-a-limit", params=params)
    await started_pid(marker)
    await shared_gateway.http.post(f"/runs/{run_id}/cancel")
    assert (await shared_gateway.ends(run_id))["status"] == "CANCELLED"
    assert not book.exists()


async def test_an_embedded_worker_ends_a_run_at_its_limits_too(
    config: NatsBackendConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    release = tmp_path / "release"

    def wait() -> None:
        while not release.exists():
            os.sched_yield()

    slow = Flow("slow") >> TaskWrapper(Task(func=wait, name="wait", timeout_sec=0.3))
    async with running_gateway(config) as gateway:
        worker = await PyocoNatsWorker.connect(config, flow_resolver=lambda _: slow)
        try:
            run_id = await gateway.submit("slow")
            assert await worker.run_once(timeout=LIMIT_SEC) == run_id
            run = await gateway.get(run_id)
            assert (run["status"], run["reason"]) == ("FAILED", "timeout")
        finally:
            release.touch()
            await worker.close()


async def test_a_failing_task_is_tried_again_after_a_pause(config: NatsBackendConfig, tmp_path: Path) -> None:
    config = replace(config, task_retry_base_sec=0.2)
    params = {"book": str(tmp_path / "book"), "times": 2}
    async with running_gateway(config) as gateway, serving_worker(config):
        run = await gateway.ends(await gateway.submit("retrying", params=params))
    assert run["status"] == "COMPLETED", run["error"]
    record = run["task_records"]["flaky"]
    assert record["output"] == 3
    # Two pauses: at least half of 0.2 s, and at least half of 0.4 s.
    assert record["duration_ms"] > 300
