"""The links, times and calls of tasks in a run's record, during the run and at its end."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import msgspec
from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper, switch

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.models import JournalEntry
from pyoco_server.worker.engine.flow_graph import predecessors
from tests.flows import basics, durable
from tests.support.inspection import started_pid
from tests.support.running.flow_runs import FlowUnderTest
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually


def step(name: str, **options: Any) -> TaskWrapper:
    return TaskWrapper(Task(func=lambda: name, name=name, **options))


def records_of(told: dict[str, bytes]) -> dict[str, dict[str, Any]]:
    return {name: msgspec.json.decode(record) for name, record in told.items()}


def test_a_graph_has_the_links_of_its_flow() -> None:
    assert predecessors(durable.interrupted_branches) == {
        "left": ["start"],
        "right": ["start"],
        "end": ["left", "right"],
    }


def test_a_single_task_has_no_links() -> None:
    assert predecessors(basics.noop_flow) == {}


def test_tasks_of_other_flows_are_excluded() -> None:
    assert predecessors(basics.entangled_flow) == {"shared": ["first"]}


def test_a_loop_counts_as_one_iteration() -> None:
    assert predecessors(durable.interrupted_loop) == {
        "turn": ["begin"],
        "middle": ["turn"],
        "turn_again": ["middle"],
    }


def test_a_switch_links_all_branches() -> None:
    branches = switch("$ctx.params.way")[
        "left" >> step("go_left"), "right" >> (step("go_right") >> step("far"))
    ]
    flow = Flow("branching") >> step("begin") >> branches >> step("end")
    links = predecessors(flow)
    assert links["go_left"] == links["go_right"] == ["begin"]
    assert links["far"] == ["go_right"]
    assert sorted(links["end"]) == ["far", "go_left"]


def test_the_outcome_has_the_links() -> None:
    records = records_of(FlowUnderTest(basics.chain_flow).execute({"x": 1}).task_records)
    assert "after" not in records["load"]
    assert records["store"]["after"] == ["load"]
    assert "calls" not in records["store"]


def test_each_iteration_of_a_loop_is_recorded(tmp_path: Path) -> None:
    params = {"book": str(tmp_path / "book"), "items": [1, 2]}
    records = records_of(FlowUnderTest(durable.interrupted_loop).execute(params).task_records)
    assert (records["turn"]["calls"], records["turn_again"]["calls"]) == (3, 2)
    turns = records["turn"]["latest_calls"]
    assert len(turns) == 3
    assert all(each["started_at"] <= each["ended_at"] and "error" not in each for each in turns)
    assert turns[0]["ended_at"] <= turns[1]["started_at"]


def test_each_try_is_recorded_with_its_error() -> None:
    failures = iter(["first", "second"])

    def stumble() -> str:
        for text in failures:
            raise ValueError(text)
        return "done"

    flow = Flow("stumbling") >> TaskWrapper(Task(func=stumble, name="stumble", retries=2))
    record = records_of(FlowUnderTest(flow).execute().task_records)["stumble"]
    assert record["calls"] == 3
    assert [each.get("error") for each in record["latest_calls"]] == ["first", "second", None]


def test_progress_has_the_failed_tries() -> None:
    told: list[dict[str, Any]] = []

    def stumble() -> None:
        told.append(records_of(run.progress().task_records)["stumble"])
        if len(told) < 3:
            raise ValueError(f"failure {len(told)}")

    flow = Flow("stumbling") >> TaskWrapper(Task(func=stumble, name="stumble", retries=2))
    run = FlowUnderTest(flow).prepare()
    run.execute()
    tries = [[each["error"] for each in record.get("latest_calls", [])] for record in told]
    assert tries == [[], ["failure 1"], ["failure 1", "failure 2"]]


def test_only_the_latest_iterations_are_kept() -> None:
    flow = Flow("turning") >> step("turn")[120]
    record = records_of(FlowUnderTest(flow).execute().task_records)["turn"]
    assert (record["calls"], len(record["latest_calls"])) == (120, 50)


def test_progress_has_the_records_so_far() -> None:
    run = FlowUnderTest(basics.chain_flow).prepare({"x": 1})
    assert run.progress().task_records == {}, "the engine has not begun"
    run.execute()
    records = records_of(run.progress().task_records)
    assert records["store"]["after"] == ["load"]
    assert records["load"]["started_at"] <= records["load"]["ended_at"] <= time.time()
    assert "output" not in records["load"]


def test_a_replayed_task_keeps_its_times_in_progress() -> None:
    under_test = FlowUnderTest(basics.chain_flow)
    under_test.execute({"x": 1})
    entries: list[JournalEntry] = under_test.written
    run = FlowUnderTest(basics.chain_flow).prepare({"x": 1}, entries, attempt=2)
    run.execute()
    record = records_of(run.progress().task_records)["load"]
    assert record["replayed"] is True
    assert record["started_at"] == entries[0].started_at


async def test_a_running_run_has_its_graph_and_times(
    gateway: RunningGateway, config: NatsBackendConfig, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    params = {"book": str(tmp_path / "book"), "release": str(release)}
    async with serving_worker(config):
        run_id = await gateway.submit("interrupted-branches", params=params)

        async def waits_in_the_middle() -> bool:
            run = await gateway.get(run_id, include="records")
            return "ended_at" in run["task_records"].get("right", {})

        await eventually(waits_in_the_middle, describe="the right branch is shown as done")
        records = (await gateway.get(run_id, include="records"))["task_records"]
        assert records["end"] == {"after": ["left", "right"]}
        assert "ended_at" not in records["left"]
        release.touch()
        await gateway.ends(run_id)


async def test_a_run_that_loses_its_executor_keeps_its_last_records(
    gateway: RunningGateway, config: NatsBackendConfig, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    async with serving_worker(config):
        params = {"path": str(tmp_path / "never"), "started": str(started)}
        run_id = await gateway.submit("waiting", params=params)

        async def is_shown() -> bool:
            run = await gateway.get(run_id, include="records")
            return "started_at" in run["task_records"].get("wait_for_file", {})

        await eventually(is_shown, describe="the task is shown as started")
        # A task is shown as started before its function is called.
        os.kill(await started_pid(started), signal.SIGKILL)
        run = await gateway.ends(run_id)
    assert (run["status"], run["reason"]) == ("FAILED", "executor_crashed")
    assert run["tasks"] == {"wait_for_file": "FAILED"}
    assert run["task_records"]["wait_for_file"].keys() == {"started_at"}
