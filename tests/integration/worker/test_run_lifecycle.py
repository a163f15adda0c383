"""Runs end to end: HTTP, JetStream, worker, executor process, pyoco."""

import os
import signal
import time
from pathlib import Path

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker import PyocoNatsWorker
from tests.flows import basics
from tests.integration.worker.conftest import OwnQueue
from tests.support.inspection import queue_is_empty, started_pid
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import LIMIT_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_submitted_run_is_executed_and_read_back(served: RunningGateway) -> None:
    before = time.time()
    answer = await served.http.post("/runs", json={"flow_name": "chain", "params": {"x": 4}})
    assert answer.status_code == 200
    accepted = answer.json()
    # The gateway may not have read the record of the new worker yet.
    assert {each["code"] for each in accepted.pop("warnings", [])} <= {"no_worker"}
    assert accepted == {"run_id": accepted["run_id"], "status": "PENDING"}

    run = await served.ends(accepted["run_id"])
    assert run["status"] == "COMPLETED"
    assert run["flow_name"] == "chain"
    assert run["params"] == {"x": 4}
    assert run["tag"] == "default"
    assert run["tags"] == ["default"]
    assert run["tasks"] == {"load": "SUCCEEDED", "store": "SUCCEEDED"}
    assert run["attempt"] == 1
    assert run["worker_id"] == "worker"
    assert run["error"] is None
    assert before <= run["submitted_at"] <= run["start_time"] <= run["end_time"] <= run["updated_at"]

    records = run["task_records"]
    assert records["store"]["output"] == {"stored": 5}
    assert records["store"]["inputs"] == {"load": 5}
    assert records["load"]["stdout"] == "loading 4\n"
    assert records["store"]["stderr"] == "a warning\n"
    assert run["task_records_truncated"] is False


async def test_records_are_left_out_unless_asked_for(served: RunningGateway) -> None:
    run_id = (await served.run("chain"))["run_id"]
    assert "task_records" not in await served.get(run_id)
    for include in ("records", "full", "all"):
        assert set((await served.get(run_id, include))["task_records"]) == {"load", "store"}

    tasks = (await served.http.get(f"/runs/{run_id}/tasks")).json()
    assert set(tasks) == {
        "run_id", "flow_name", "status", "tasks", "task_records", "task_records_truncated",
    }  # fmt: skip
    assert tasks["task_records"]["load"]["state"] == "SUCCEEDED"


async def test_an_embedded_worker_runs_flows_in_this_process(
    own_queue: OwnQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where pyoco makes the artifacts folder of an embedded flow
    async with own_queue.idle_worker(basics.chain_flow, "inside") as worker:
        assert await worker.run_once(timeout=0.05) is None
        run_id = await own_queue.submit("chain", params={"x": 1})
        assert await worker.run_once(timeout=LIMIT_SEC) == run_id
    run = await own_queue.gateway.get(run_id, "records")
    assert (run["status"], run["worker_id"]) == ("COMPLETED", "inside")
    assert run["task_records"]["store"]["output"] == {"stored": 2}


@pytest.mark.parametrize("tag", ["has.dot", "", "sp ace", "star*"])
async def test_a_worker_refuses_a_tag_that_is_no_subject_token(tag: str) -> None:
    with pytest.raises(ValueError, match="tag"):
        await PyocoNatsWorker.connect(
            NatsBackendConfig(), flow_resolver=lambda _: basics.chain_flow, tags=[tag]
        )


async def test_a_failing_task_fails_the_run_with_its_name(served: RunningGateway) -> None:
    run = await served.run("failing", params={"message": "no disk"})
    assert run["status"] == "FAILED"
    assert run["reason"] == "execution_error"
    assert run["error"] == "task fail: ValueError: no disk"
    assert run["tasks"] == {"fail": "FAILED", "never": "PENDING"}
    assert "ValueError: no disk" in run["task_records"]["fail"]["traceback"]


async def test_a_task_that_exits_fails_the_run_and_not_the_worker(served: RunningGateway) -> None:
    run = await served.run("leaving")
    assert (run["status"], run["error"]) == ("FAILED", "task leave: SystemExit: 3")
    assert (await served.run("noop"))["status"] == "COMPLETED"


async def test_an_unknown_flow_fails_with_the_known_flows(served: RunningGateway) -> None:
    run = await served.run("chian")
    assert (run["status"], run["reason"]) == ("FAILED", "flow_not_found")
    assert "'chian'" in run["error"]
    assert "chain" in run["error"].replace("'chian'", "")


async def test_a_run_goes_only_to_a_worker_of_its_tag(shared_gateway: RunningGateway) -> None:
    config = shared_gateway.inside.config
    run_id = await shared_gateway.submit("noop", tag="gpu", tags=["nightly", "team-a"])
    async with serving_worker(config, worker_id="cpu-worker", tags=["cpu"]):
        await shared_gateway.run("noop", tag="cpu")
        assert (await shared_gateway.get(run_id))["status"] == "PENDING"
    async with serving_worker(config, worker_id="gpu-worker", tags=["cpu", "gpu"]):
        run = await shared_gateway.ends(run_id)
        assert (run["worker_id"], run["tags"]) == ("gpu-worker", ["nightly", "team-a"])


async def test_a_worker_of_two_tags_serves_both_fairly(shared_gateway: RunningGateway) -> None:
    """With both queues full, neither tag waits until the other is empty."""
    runs = {tag: [await shared_gateway.submit("noop", tag=tag) for _ in range(20)] for tag in ("a", "b")}
    async with serving_worker(shared_gateway.inside.config, worker_id="of-two-tags", tags=["a", "b"]):
        ended = {
            tag: [(await shared_gateway.ends(run_id))["end_time"] for run_id in run_ids]
            for tag, run_ids in runs.items()
        }
    order = sorted((at, tag) for tag, times in ended.items() for at in times)
    first_half = [tag for _, tag in order[:20]]
    assert 6 <= first_half.count("a") <= 14


async def test_each_run_has_a_working_directory_of_its_own(served: RunningGateway) -> None:
    run_dir = Path(served.inside.config.run_dir)
    runs = [await served.run("where") for _ in range(2)]
    for run in runs:
        folder = run_dir / f"{run['run_id']}-1"
        assert run["task_records"]["where"]["output"]["cwd"] == str(folder)
        assert (folder / "note.txt").read_text() == "kept"
    # One warm process served both.
    assert len({run["task_records"]["where"]["output"]["pid"] for run in runs}) == 1
    for flow in ("noop", "nobody-knows"):
        empty = await served.run(flow)
        assert not list(run_dir.glob(f"{empty['run_id']}*"))


async def test_values_without_a_json_form_are_described(served: RunningGateway) -> None:
    run = await served.run("odd")
    assert run["status"] == "COMPLETED"
    assert "object object" in str(run["task_records"]["odd"]["output"])


async def test_large_integers_in_params_are_kept(served: RunningGateway) -> None:
    run = await served.run("chain", params={"x": 2**63})
    assert run["task_records"]["load"]["output"] == 2**63 + 1


async def test_a_large_output_ends_in_a_completed_run_with_a_truncated_record(served: RunningGateway) -> None:
    run = await served.run("large", params={"size": 2 * 1024 * 1024})
    assert run["status"] == "COMPLETED"
    assert run["task_records_truncated"] is True
    record = run["task_records"]["large"]
    assert record["truncated"] == ["output"]
    assert record["output"]["bytes"] == 2 * 1024 * 1024 + 2
    assert await eventually(lambda: queue_is_empty(served), describe="the message is acked")


async def test_tasks_are_in_the_order_of_the_flow(served: RunningGateway) -> None:
    run = await served.run("wide")
    assert list(run["tasks"]) == [f"part_{number}" for number in range(40)]


async def test_progress_and_heartbeat_are_stored_during_a_run(served: RunningGateway, tmp_path: Path) -> None:
    release = tmp_path / "release"
    run_id = await served.submit("waiting", params={"path": str(release)})

    run = await served.task_runs(run_id, "wait_for_file")
    assert (run["status"], run["tasks"]) == ("RUNNING", {"wait_for_file": "RUNNING"})
    assert run["worker_alive"] is True
    assert run["worker_tags"] == ["default"]

    async def heartbeat_moved() -> bool:
        return bool((await served.get(run_id))["heartbeat_at"] > run["heartbeat_at"] + 0.2)

    await eventually(heartbeat_moved, describe="the heartbeat moves")
    release.touch()
    assert (await served.ends(run_id))["status"] == "COMPLETED"


async def test_a_task_used_in_two_flows_is_explained_instead_of_a_deadlock(served: RunningGateway) -> None:
    run = await served.run("entangled")
    assert run["status"] == "FAILED"
    assert "task 'shared' waits for 'second', which is not part of this flow" in run["error"]


async def test_a_running_run_has_its_graph_and_times(served: RunningGateway, tmp_path: Path) -> None:
    release = tmp_path / "release"
    params = {"book": str(tmp_path / "book"), "release": str(release)}
    run_id = await served.submit("interrupted-branches", params=params)

    async def waits_in_the_middle() -> bool:
        run = await served.get(run_id, include="records")
        return "ended_at" in run["task_records"].get("right", {})

    await eventually(waits_in_the_middle, describe="the right branch is shown as done")
    records = (await served.get(run_id, include="records"))["task_records"]
    assert records["end"] == {"after": ["left", "right"]}
    assert "ended_at" not in records["left"]
    release.touch()
    await served.ends(run_id)


async def test_a_run_that_loses_its_executor_keeps_its_last_records(
    served: RunningGateway, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    params = {"path": str(tmp_path / "never"), "started": str(started)}
    run_id = await served.submit("waiting", params=params)

    async def is_shown() -> bool:
        run = await served.get(run_id, include="records")
        return "started_at" in run["task_records"].get("wait_for_file", {})

    await eventually(is_shown, describe="the task is shown as started")
    # A task is shown as started before its function is called.
    os.kill(await started_pid(started), signal.SIGKILL)
    run = await served.ends(run_id)
    assert (run["status"], run["reason"]) == ("FAILED", "executor_crashed")
    assert run["tasks"] == {"wait_for_file": "FAILED"}
    assert run["task_records"]["wait_for_file"].keys() == {"started_at"}
