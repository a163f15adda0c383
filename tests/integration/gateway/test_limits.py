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
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import LIMIT_SEC, eventually


@pytest.mark.parametrize("flow", ["slow-task", "slow-loop"])
async def test_a_task_past_its_limit_is_really_ended_and_its_run_has_failed(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path, flow: str
) -> None:
    marker = tmp_path / "started"
    async with serving_worker(config):
        run_id = await gateway.submit(flow, params={"started": str(marker)})
        pid = await started_pid(marker)
        run = await gateway.ends(run_id)
        assert (run["status"], run["reason"]) == ("FAILED", "timeout")
        assert run["error"] == "task slow: it took longer than its limit of 0.4 s"
        assert run["tasks"]["slow"] == "FAILED"
        assert run["tasks"].get("quick", "SUCCEEDED") == "SUCCEEDED"
        assert run["task_records"]["slow"]["error"] == "it took longer than its limit of 0.4 s"
        await eventually(lambda: not is_alive(pid), describe="the executor is gone")
        assert (await gateway.ends(await gateway.submit("noop")))["status"] == "COMPLETED"
        await eventually(lambda: queue_is_empty(gateway), describe="the queue is empty")


async def test_a_flow_continues_without_an_isolated_task_that_is_stuck(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    book = tmp_path / "book"
    async with serving_worker(config):
        run = await gateway.ends(await gateway.submit("slow-but-isolated", params={"book": str(book)}))
        assert run["status"] == "COMPLETED", run["error"]
        assert run["tasks"] == {"slow": "FAILED", "first": "SUCCEEDED", "second": "SUCCEEDED"}
        assert "longer than its limit" in run["task_records"]["slow"]["error"]
        assert sorted(book.read_text().splitlines()) == ["first", "second"]


async def test_a_run_timeout_keeps_the_completed_tasks(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "started"
    async with serving_worker(config):
        run_id = await gateway.submit("hanging", params={"started": str(marker)}, timeout_sec=60)
        pid = await started_pid(marker)
        # Not a short limit: it could pass before the run has come so far.
        monkeypatch.setattr(OwnedRun, "used_sec", 60.0)
        run = await gateway.ends(run_id)
        assert (run["status"], run["reason"]) == ("FAILED", "timeout")
        assert run["error"] == "the run took longer than its limit of 60 s"
        assert run["tasks"] == {"quick": "SUCCEEDED", "hang": "FAILED"}
        assert run["task_records"]["quick"]["output"] == "done"
        await eventually(lambda: not is_alive(pid), describe="the executor is gone")


async def test_an_embedded_worker_ends_a_run_at_its_limits_too(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    release = tmp_path / "release"

    def wait() -> None:
        while not release.exists():
            os.sched_yield()

    slow = Flow("slow") >> TaskWrapper(Task(func=wait, name="wait", timeout_sec=0.3))
    worker = await PyocoNatsWorker.connect(config, flow_resolver=lambda _: slow)
    try:
        run_id = await gateway.submit("slow")
        assert await worker.run_once(timeout=LIMIT_SEC) == run_id
        run = await gateway.get(run_id)
        assert (run["status"], run["reason"]) == ("FAILED", "timeout")
    finally:
        release.touch()
        await worker.close()


async def test_a_failing_task_is_tried_again_after_a_pause(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    config = replace(config, task_retry_base_sec=0.2)
    book = tmp_path / "book"
    async with serving_worker(config):
        run = await gateway.ends(await gateway.submit("retrying", params={"book": str(book), "times": 2}))
        assert run["status"] == "COMPLETED", run["error"]
        record = run["task_records"]["flaky"]
        assert record["output"] == 3
        # Two pauses: at least half of 0.2 s, and at least half of 0.4 s.
        assert record["duration_ms"] > 300


def test_the_flows_of_this_page_have_their_limits() -> None:
    """The limits above are the flows' own; a renamed field would make every test of them vain."""
    assert {task.timeout_sec for task in durable.slow_task.tasks} == {None, 0.4}


async def test_a_task_that_holds_the_gil_is_ended_at_its_limit_too(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(config):
        run = await gateway.ends(await gateway.submit("deaf-task"))
        assert (run["status"], run["reason"]) == ("FAILED", "timeout")
        assert run["error"] == "task deaf: it took longer than its limit of 0.3 s"
        assert (await gateway.ends(await gateway.submit("noop")))["status"] == "COMPLETED"


async def test_a_flow_continues_without_an_isolated_task_that_holds_the_gil(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    async with serving_worker(config):
        run_id = await gateway.submit("deaf-but-isolated", params={"book": str(tmp_path / "book")})
        run = await gateway.ends(run_id)
        assert (run["status"], run["tasks"]) == ("COMPLETED", {"deaf": "FAILED", "other": "SUCCEEDED"})


async def test_a_limit_counts_from_the_start_of_its_task_however_long_it_waited_for_a_thread(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(config):
        run = await gateway.ends(await gateway.submit("wide-with-limits"))
        assert run["status"] == "COMPLETED", run["error"]


async def test_nothing_is_started_after_a_cancel_though_a_limit_falls_due(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    book, marker = tmp_path / "book", tmp_path / "started"
    params = {"book": str(book), "release": str(tmp_path / "release"), "started": str(marker)}
    async with serving_worker(config):
        run_id = await gateway.submit("cancelled-at-a-limit", params=params)
        await started_pid(marker)
        await gateway.http.post(f"/runs/{run_id}/cancel")
        run = await gateway.ends(run_id)
        assert run["status"] == "CANCELLED"
        assert not book.exists()
