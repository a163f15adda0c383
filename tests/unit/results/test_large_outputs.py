"""Outputs that are too large for the records of their tasks are sent in parts."""

import json
from typing import Any

import pytest
from pyoco import Flow, task
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server import task_options
from pyoco_server.worker.engine.journal.json_values import VALUE_LIMIT_BYTES
from pyoco_server.worker.flows.task_options import invalid_option
from tests.support.running.flow_runs import FlowUnderTest, record

LARGE = VALUE_LIMIT_BYTES + 1


def returning(value: Any, name: str = "give") -> TaskWrapper:
    return TaskWrapper(Task(func=lambda: value, name=name))


def sent(run: FlowUnderTest, name: str = "give") -> bytes:
    parts = [part for part in run.parts if part.task == name]
    assert [part.is_last for part in parts] == [False] * (len(parts) - 1) + [True]
    return b"".join(part.data for part in parts)


@pytest.mark.parametrize("value", ["x", None, b"", b"x" * 48_000, {"a": [1]}])
def test_a_small_output_is_in_its_record_only(value: Any) -> None:
    run = FlowUnderTest(Flow() >> returning(value))
    outcome = run.execute()
    assert run.parts == []
    assert "output_cut" not in record(outcome, "give")
    assert outcome.result_task is None


def test_a_large_text_is_sent_as_json() -> None:
    value = {"rows": ["ä" * LARGE]}
    run = FlowUnderTest(Flow() >> returning(value))
    outcome = run.execute()
    assert json.loads(sent(run)) == value
    assert not any(part.is_bytes for part in run.parts)
    assert max(len(part.data) for part in run.parts) <= 128 * 1024
    kept = record(outcome, "give")
    assert kept["truncated"] == ["output"]
    assert kept["output"]["bytes"] == len(sent(run))
    assert "output_cut" not in kept


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_large_bytes_are_sent_as_they_are(kind: Any) -> None:
    run = FlowUnderTest(Flow() >> returning(kind(b"\xff" * LARGE)))
    outcome = run.execute()
    assert sent(run) == b"\xff" * LARGE
    assert all(part.is_bytes for part in run.parts)
    kept = record(outcome, "give")
    assert (kept["output_type"], kept["output"]["bytes"]) == ("bytes", LARGE)


def test_small_bytes_are_marked() -> None:
    assert record(FlowUnderTest(Flow() >> returning(b"ab")).execute(), "give")["output_type"] == "bytes"


@pytest.mark.parametrize("limit", [0, LARGE])
def test_an_output_above_the_limit_is_not_sent_and_the_run_completes(limit: int) -> None:
    run = FlowUnderTest(Flow() >> returning("x" * LARGE), max_result_bytes=limit)
    outcome = run.execute()
    assert (outcome.status, run.parts) == ("COMPLETED", [])
    why = record(outcome, "give")["output_cut"]
    assert why == f"it takes {LARGE + 2} bytes, and PYOCO_RESULT_MAX_BYTES={limit}"


def test_outputs_of_a_failed_run_are_sent() -> None:
    def fail() -> None:
        raise ValueError("no")

    flow = Flow() >> returning("x" * LARGE) >> task(fail)
    run = FlowUnderTest(flow)
    assert run.execute().status == "FAILED"
    assert len(sent(run)) == LARGE + 2


def test_of_many_outputs_the_longest_are_sent_until_the_records_fit() -> None:
    flow = Flow()
    for number in range(8):
        flow >> returning("x" * (1000 + 4000 * number), f"t{number}")
    run = FlowUnderTest(flow, max_records_bytes=40_000)
    outcome = run.execute()
    assert sum(map(len, outcome.task_records.values())) <= 40_000
    moved = {part.task for part in run.parts}
    assert moved == {"t7", "t6", "t5", "t4"}
    assert json.loads(sent(run, "t7")) == "x" * 29_000
    assert record(outcome, "t3")["output"] == "x" * 13_000


def test_a_run_that_was_ended_from_outside_sends_nothing() -> None:
    run = FlowUnderTest(Flow() >> returning("x" * LARGE))
    prepared = run.prepare()
    prepared.execute()
    run.parts.clear()
    forced = prepared.forced_outcome("CANCELLED", "by force")
    assert run.parts == []
    assert record(forced, "give")["output_cut"] == "the run was ended by force"


def test_a_flow_names_the_task_of_its_result() -> None:
    first = task_options(result=True)(returning(1, "first"))
    flow = Flow() >> first >> returning(2, "second")
    assert FlowUnderTest(flow).execute().result_task == "first"


def test_only_one_task_has_the_result() -> None:
    flow = Flow()
    for name in ("b", "a"):
        flow >> task_options(result=True)(returning(1, name))
    assert invalid_option(flow) == "result=True is for one task of a flow, not for a, b"
    with pytest.raises(ValueError, match=r"result='yes'.*true or false"):
        task_options(result="yes")  # type: ignore[arg-type]
