"""Runs end to end: HTTP, JetStream, worker, executor process, pyoco."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyoco import Flow

from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker import PyocoNatsWorker
from tests.flows import basics
from tests.support.running.gateway import running_gateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import LIMIT_SEC, NEVER_SEC, eventually


def resolve(name: str) -> Flow:
    return {"chain": basics.chain_flow, "failing": basics.failing_flow, "leaving": basics.leaving_flow}[name]


async def test_a_submitted_run_is_executed_and_read_back(config: NatsBackendConfig) -> None:
    async with running_gateway(config) as gateway, serving_worker(config):
        before = time.time()
        answer = await gateway.http.post("/runs", json={"flow_name": "chain", "params": {"x": 4}})
        assert answer.status_code == 200
        accepted = answer.json()
        assert accepted == {"run_id": accepted["run_id"], "status": "PENDING"}

        run = await gateway.ends(accepted["run_id"])
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


async def test_records_are_left_out_unless_asked_for(config: NatsBackendConfig) -> None:
    async with running_gateway(config) as gateway, serving_worker(config):
        run_id = await gateway.submit("chain")
        await gateway.ends(run_id)
        assert "task_records" not in await gateway.get(run_id)
        for include in ("records", "full", "all"):
            assert set((await gateway.get(run_id, include))["task_records"]) == {"load", "store"}

        tasks = (await gateway.http.get(f"/runs/{run_id}/tasks")).json()
        assert set(tasks) == {
            "run_id", "flow_name", "status", "tasks", "task_records", "task_records_truncated",
        }  # fmt: skip
        assert tasks["task_records"]["load"]["state"] == "SUCCEEDED"


async def test_an_embedded_worker_runs_flows_in_this_process(
    config: NatsBackendConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where pyoco makes the artifacts folder of an embedded flow
    worker = await PyocoNatsWorker.connect(config, flow_resolver=resolve, worker_id="inside")
    try:
        async with running_gateway(config) as gateway:
            assert await worker.run_once(timeout=0.05) is None
            run_id = await gateway.submit("chain", params={"x": 1})
            assert await worker.run_once(timeout=LIMIT_SEC) == run_id
            run = await gateway.get(run_id, "records")
            assert run["status"] == "COMPLETED"
            assert run["worker_id"] == "inside"
            assert run["task_records"]["store"]["output"] == {"stored": 2}
    finally:
        await worker.close()


@pytest.mark.parametrize("tag", ["has.dot", "", "sp ace", "star*"])
async def test_a_worker_refuses_a_tag_that_is_no_subject_token(config: NatsBackendConfig, tag: str) -> None:
    with pytest.raises(ValueError, match="tag"):
        await PyocoNatsWorker.connect(config, flow_resolver=resolve, tags=[tag])


async def test_a_failing_task_fails_the_run_with_its_name(config: NatsBackendConfig) -> None:
    async with running_gateway(config) as gateway, serving_worker(config):
        run = await gateway.ends(await gateway.submit("failing", params={"message": "no disk"}))
        assert run["status"] == "FAILED"
        assert run["reason"] == "execution_error"
        assert run["error"] == "task fail: ValueError: no disk"
        assert run["tasks"] == {"fail": "FAILED", "never": "PENDING"}
        assert "ValueError: no disk" in run["task_records"]["fail"]["traceback"]


async def test_a_task_that_exits_fails_the_run_and_not_the_worker(config: NatsBackendConfig) -> None:
    async with running_gateway(config) as gateway, serving_worker(config):
        run = await gateway.ends(await gateway.submit("leaving"))
        assert (run["status"], run["error"]) == ("FAILED", "task leave: SystemExit: 3")
        assert (await gateway.ends(await gateway.submit("noop")))["status"] == "COMPLETED"


async def test_an_unknown_flow_fails_with_the_known_flows(config: NatsBackendConfig) -> None:
    async with running_gateway(config) as gateway, serving_worker(config):
        run = await gateway.ends(await gateway.submit("chian"))
        assert (run["status"], run["reason"]) == ("FAILED", "flow_not_found")
        assert "'chian'" in run["error"]
        assert "chain" in run["error"].replace("'chian'", "")


async def test_a_run_goes_only_to_a_worker_of_its_tag(config: NatsBackendConfig) -> None:
    async with running_gateway(config) as gateway:
        run_id = await gateway.submit("noop", tag="gpu", tags=["nightly", "team-a"])
        async with serving_worker(config, worker_id="cpu-worker", tags=["cpu"]):
            other = await gateway.submit("noop", tag="cpu")
            await gateway.ends(other)
            assert (await gateway.get(run_id))["status"] == "PENDING"
        async with serving_worker(config, worker_id="gpu-worker", tags=["cpu", "gpu"]):
            run = await gateway.ends(run_id)
            assert (run["worker_id"], run["tags"]) == ("gpu-worker", ["nightly", "team-a"])


async def test_a_worker_of_two_tags_serves_both_fairly(config: NatsBackendConfig) -> None:
    """With both queues full, neither tag waits until the other is empty."""
    async with running_gateway(config) as gateway:
        runs = {tag: [await gateway.submit("noop", tag=tag) for _ in range(20)] for tag in ("a", "b")}
        async with serving_worker(config, tags=["a", "b"]):
            ended = {
                tag: [(await gateway.ends(run_id))["end_time"] for run_id in run_ids]
                for tag, run_ids in runs.items()
            }
    order = sorted((at, tag) for tag, times in ended.items() for at in times)
    first_half = [tag for _, tag in order[:20]]
    assert 6 <= first_half.count("a") <= 14


async def test_each_run_has_a_working_directory_of_its_own(config: NatsBackendConfig) -> None:
    async with running_gateway(config) as gateway, serving_worker(config):
        runs = [await gateway.ends(await gateway.submit("where")) for _ in range(2)]
        for run in runs:
            folder = Path(config.run_dir) / f"{run['run_id']}-1"
            assert run["task_records"]["where"]["output"]["cwd"] == str(folder)
            assert (folder / "note.txt").read_text() == "kept"
        # One warm process served both.
        assert len({run["task_records"]["where"]["output"]["pid"] for run in runs}) == 1
        for flow in ("noop", "nobody-knows"):
            empty = await gateway.ends(await gateway.submit(flow))
            assert not list(Path(config.run_dir).glob(f"{empty['run_id']}*"))


async def test_values_without_a_json_form_are_described(config: NatsBackendConfig) -> None:
    async with running_gateway(config) as gateway, serving_worker(config):
        run = await gateway.ends(await gateway.submit("odd"))
        assert run["status"] == "COMPLETED"
        assert "object object" in str(run["task_records"]["odd"]["output"])


async def test_large_integers_in_params_are_kept(config: NatsBackendConfig) -> None:
    async with running_gateway(config) as gateway, serving_worker(config):
        run = await gateway.ends(await gateway.submit("chain", params={"x": 2**63}))
        assert run["task_records"]["load"]["output"] == 2**63 + 1


async def test_progress_and_heartbeat_are_stored_during_a_run(
    config: NatsBackendConfig, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    # A worker that is held up for a moment is not gone.
    config = replace(config, worker_disconnect_timeout_sec=NEVER_SEC)
    async with running_gateway(config) as gateway, serving_worker(config):
        run_id = await gateway.submit("waiting", params={"path": str(release)})

        async def seen_running() -> dict[str, Any] | None:
            run = await gateway.get(run_id)
            return run if run["tasks"] == {"wait_for_file": "RUNNING"} else None

        run = await eventually(seen_running, describe="the task is seen RUNNING")
        assert run["status"] == "RUNNING"
        assert run["worker_alive"] is True
        assert run["worker_tags"] == ["default"]

        async def heartbeat_moved() -> bool:
            return bool((await gateway.get(run_id))["heartbeat_at"] > run["heartbeat_at"] + 0.2)

        await eventually(heartbeat_moved, describe="the heartbeat moves")
        release.touch()
        assert (await gateway.ends(run_id))["status"] == "COMPLETED"


async def test_a_task_used_in_two_flows_is_explained_instead_of_a_deadlock(config: NatsBackendConfig) -> None:
    async with running_gateway(config) as gateway, serving_worker(config):
        run = await gateway.ends(await gateway.submit("entangled"))
        assert run["status"] == "FAILED"
        assert "task 'shared' waits for 'second', which is not part of this flow" in run["error"]
