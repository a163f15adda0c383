"""The links, times and calls of tasks in their records, during a run and at its end."""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper, switch

from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.runs.flow_yaml.flow_order import in_order, predecessors
from tests.flows import basics, durable
from tests.support.running.flow_runs import FlowUnderTest


def step(name: str, **options: Any) -> TaskWrapper:
    return TaskWrapper(Task(func=lambda: name, name=name, **options))


def records_of(reported: dict[str, bytes]) -> dict[str, dict[str, Any]]:
    return {name: msgspec.json.decode(record) for name, record in reported.items()}


@pytest.mark.parametrize(
    ("flow", "links"),
    [
        (durable.interrupted_branches, {"left": ["start"], "right": ["start"], "end": ["left", "right"]}),
        (basics.noop_flow, {}),
        # Without the tasks of other flows.
        (basics.entangled_flow, {"shared": ["first"]}),
        # A loop counts as one iteration.
        (durable.interrupted_loop, {"turn": ["begin"], "middle": ["turn"], "turn_again": ["middle"]}),
    ],
    ids=lambda value: value.name if isinstance(value, Flow) else "",
)
def test_predecessors(flow: Flow, links: dict[str, list[str]]) -> None:
    assert predecessors(flow) == links


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
    reported: list[dict[str, Any]] = []

    def stumble() -> None:
        reported.append(records_of(run.progress().task_records)["stumble"])
        if len(reported) < 3:
            raise ValueError(f"failure {len(reported)}")

    flow = Flow("stumbling") >> TaskWrapper(Task(func=stumble, name="stumble", retries=2))
    run = FlowUnderTest(flow).prepare()
    run.execute()
    tries = [[each["error"] for each in record.get("latest_calls", [])] for record in reported]
    assert tries == [[], ["failure 1"], ["failure 1", "failure 2"]]


def test_only_the_latest_iterations_are_kept() -> None:
    flow = Flow("turning") >> step("turn")[120]
    record = records_of(FlowUnderTest(flow).execute().task_records)["turn"]
    assert (record["calls"], len(record["latest_calls"])) == (120, 50)


def test_progress_has_the_records_so_far() -> None:
    run = FlowUnderTest(basics.chain_flow).prepare({"x": 1})
    assert run.progress().task_records == {}, "the engine has not started"
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


def test_records_are_in_the_order_of_the_flow() -> None:
    names = ["zoo", "year", "under", "apple", "bee"]
    chain = Flow("chain")
    for name in names:
        chain = chain >> step(name)
    assert list(FlowUnderTest(chain).execute().task_records) == names
    branches = switch("$ctx.params.way")["left" >> step("under"), "right" >> step("apple")]
    longer = switch("$ctx.params.way")["left" >> step("save"), "right" >> (step("polish") >> step("save"))]
    assert in_order(Flow("longer") >> step("zoo") >> longer) == ["zoo", "polish", "save"]
    branching = Flow("branching") >> step("zoo") >> step("year")[2] >> branches >> step("bee")
    outcome = FlowUnderTest(branching).execute({"way": "left"})
    assert list(outcome.task_records) == list(outcome.tasks) == names


class TestNumbersThatJsonDoesNotHave:
    @staticmethod
    def record_of(value: Any) -> dict[str, Any]:
        flow = Flow("numbers") >> TaskWrapper(Task(func=lambda: value, name="measure"))
        return records_of(FlowUnderTest(flow).execute().task_records)["measure"]

    def test_they_are_marked(self) -> None:
        record = self.record_of({"rows": [1.5, math.nan, {"low": -math.inf, "none": None}], "high": math.inf})
        assert record["output"] == {"rows": [1.5, None, {"low": None, "none": None}], "high": None}
        assert record["not_json"] == [
            "output.rows[1]: NaN",
            "output.rows[2].low: -Infinity",
            "output.high: Infinity",
        ]

    def test_of_inputs_too(self) -> None:
        flow = Flow("numbers") >> TaskWrapper(Task(func=lambda x: 1, name="measure", inputs={"x": math.nan}))
        record = records_of(FlowUnderTest(flow).execute().task_records)["measure"]
        assert (record["inputs"], record["not_json"]) == ({"x": None}, ["inputs.x: NaN"])

    def test_in_objects(self) -> None:
        @dataclass
        class Reading:
            value: float
            when: object

        assert self.record_of([Reading(math.nan, object())])["not_json"] == ["output[0].value: NaN"]

    @pytest.mark.parametrize("value", [None, {"a": None}, "null", [1.0, 2.5], {1: None}])
    def test_nothing_else_is(self, value: Any) -> None:
        assert "not_json" not in self.record_of(value)

    def test_many_are_shortened(self) -> None:
        marked = self.record_of([math.nan] * 50)["not_json"]
        assert (len(marked), marked[0], marked[-1]) == (21, "output[0]: NaN", "…")
