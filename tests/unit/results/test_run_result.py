"""Which task's value is the result of a run, and what of it the snapshot has."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw

from pyoco_server.errors import ResultNotFound
from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus, TaskStatus
from pyoco_server.runs.lifecycle.run_result import output_of, result_of

DIGEST = "0" * 64

Records = dict[str, dict[str, Any]]


def run(records: Records, *, status: str = "COMPLETED", result_task: str | None = None) -> RunSnapshot:
    """With the task records that are given; each task has succeeded unless its record says otherwise."""
    complete = {name: {"state": "SUCCEEDED", **record} for name, record in records.items()}
    return RunSnapshot(
        run_id="00000000-0000-4000-8000-000000000000",
        flow_name="flow",
        status=RunStatus(status),
        params={},
        tasks={name: TaskStatus(record["state"]) for name, record in complete.items()},
        heartbeat_at=0.0,
        updated_at=0.0,
        task_records={name: Raw(msgspec.json.encode(record)) for name, record in complete.items()},
        result_task=result_task or UNSET,
    )


def content(snapshot: RunSnapshot) -> bytes | None:
    return result_of(snapshot).content


def test_the_task_at_the_end_of_a_chain() -> None:
    records: Records = {
        "load": {"ended_at": 1.0, "output": 1},
        "save": {"ended_at": 2.0, "output": {"b": 2}, "after": ["load"]},
    }
    assert content(run(records)) == b'{"b":2}'


def test_of_several_ends_the_one_that_finished_last() -> None:
    records: Records = {
        "load": {"ended_at": 9.0, "output": 0},
        "slow": {"ended_at": 3.0, "output": "slow", "after": ["load"]},
        "quick": {"ended_at": 2.0, "output": "quick", "after": ["load"]},
    }
    assert content(run(records)) == b'"slow"', "not the one that has others after it"


def test_of_ends_at_the_same_time_the_last_one_of_the_flow() -> None:
    records = {name: {"ended_at": 1.0, "output": name} for name in ("b", "a")}
    assert content(run(records)) == b'"a"'


def test_an_end_that_failed_or_was_not_reached_does_not_count() -> None:
    records: Records = {
        "load": {"ended_at": 1.0, "output": "loaded"},
        "isolated": {"state": "FAILED", "ended_at": 3.0, "after": ["load"]},
        "other branch": {"state": "PENDING", "after": ["load"]},
        "good": {"ended_at": 2.0, "output": "good", "after": ["load"]},
    }
    assert content(run(records)) == b'"good"'
    del records["good"]
    assert content(run(records)) == b'"loaded"', "then the task that finished last of all"


def test_the_task_that_the_flow_names() -> None:
    records: Records = {
        "load": {"ended_at": 1.0, "output": "loaded"},
        "save": {"ended_at": 2.0, "output": "saved", "after": ["load"]},
    }
    assert content(run(records, result_task="load")) == b'"loaded"'


@pytest.mark.parametrize(
    ("record", "is_bytes", "expected"),
    [
        ({"output": None}, False, b"null"),
        ({"output": ""}, False, b'""'),
        ({"output": "", "output_type": "bytes"}, True, b""),
        ({"output": "AP8=", "output_type": "bytes"}, True, b"\x00\xff"),
    ],
)
def test_nothing_is_of_three_kinds(record: dict[str, Any], is_bytes: bool, expected: bytes) -> None:
    value = result_of(run({"give": record}))
    assert (value.content, value.is_bytes, value.size) == (expected, is_bytes, len(expected))


def test_a_large_value_is_stored_elsewhere() -> None:
    cut = {"truncated": True, "bytes": 99, "preview": "[1,"}
    stored = {"name": "output/1/x", "bytes": 99, "sha256": DIGEST}
    record = {"output": cut, "truncated": ["output"], "output_object": stored}
    value = result_of(run({"give": record}))
    assert (value.content, value.preview, value.size) == (None, "[1,", 99)
    assert value.stored is not None
    assert value.why_cut == ""


@pytest.mark.parametrize(
    ("fields", "why"),
    [({"output_cut": "it is too large"}, "it is too large"), ({}, "do not fit into the snapshot")],
)
def test_a_value_that_is_stored_nowhere_has_a_reason(fields: dict[str, Any], why: str) -> None:
    cut = {"truncated": True, "bytes": 99, "preview": "[1,"}
    value = result_of(run({"give": {"output": cut, "truncated": ["output"], **fields}}))
    assert (value.content, value.stored) == (None, None)
    assert why in value.why_cut


@pytest.mark.parametrize("status", ["PENDING", "RUNNING", "WAITING_HUMAN", "FAILED", "CANCELLED"])
def test_only_a_completed_run_has_a_result(status: str) -> None:
    with pytest.raises(ResultNotFound, match=status):
        result_of(run({"load": {"output": 1}}, status=status))
    assert output_of(run({"load": {"output": 1}}, status=status), "load").content == b"1"


def test_a_task_that_has_not_returned_says_so() -> None:
    snapshot = run({"load": {"state": "RUNNING"}, "save": {"state": "PENDING"}}, status="RUNNING")
    with pytest.raises(ResultNotFound, match=r"'load' has not returned: it is RUNNING"):
        output_of(snapshot, "load")
    with pytest.raises(ResultNotFound, match=r"no task 'lod'; there are: 'load', 'save'"):
        output_of(snapshot, "lod")
    with pytest.raises(ResultNotFound, match="stored when the run ends"):
        output_of(run({"load": {}}, status="RUNNING"), "load")


def test_records_that_were_dropped_or_cannot_be_read() -> None:
    dropped = run({"load": {"output": 1}})
    dropped.task_records = {}
    with pytest.raises(ResultNotFound, match="do not fit"):
        result_of(dropped)
    forged = run({"load": {"output": 1, "output_object": {"name": "x", "bytes": -1, "sha256": "no"}}})
    with pytest.raises(ResultNotFound, match="cannot be read"):
        result_of(forged)
    with pytest.raises(ResultNotFound, match="cannot be read"):
        result_of(run({"load": {"output": "no base64!", "output_type": "bytes"}}))
    with pytest.raises(ResultNotFound, match="no task of the run has finished"):
        result_of(run({}))
