"""Compaction of snapshots: the order of losses, and that the result always fits."""

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from pyoco_server.records.runs.run_models import (
    OpenWait,
    RunSnapshot,
    RunStatus,
    TaskStatus,
    encode,
    new_run_id,
)
from pyoco_server.runs.lifecycle.compaction import compact_run_snapshot


def snapshot(records: dict[str, dict[str, Any]], **fields: Any) -> RunSnapshot:
    return RunSnapshot(
        run_id=new_run_id(),
        flow_name="flow",
        status=RunStatus.COMPLETED,
        params={},
        tasks=dict.fromkeys(records, TaskStatus.SUCCEEDED),
        heartbeat_at=1.0,
        updated_at=1.0,
        task_records={name: Raw(msgspec.json.encode(record)) for name, record in records.items()},
        **fields,
    )


def records_of(compacted: RunSnapshot) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(encode(compacted))["task_records"]
    return decoded


def test_a_snapshot_that_fits_is_unchanged() -> None:
    fitting = snapshot({"a": {"state": "SUCCEEDED", "output": "x" * 100}})
    assert compact_run_snapshot(fitting, 10_000) is fitting


def test_long_values_are_cut_first_and_small_ones_are_kept() -> None:
    compacted = compact_run_snapshot(
        snapshot({"big": {"state": "SUCCEEDED", "output": "x" * 100_000}, "small": {"output": [1, 2]}}),
        10_000,
    )
    big, small = records_of(compacted)["big"], records_of(compacted)["small"]
    assert compacted.task_records_truncated
    assert big["truncated"] == ["output"]
    assert big["output"]["bytes"] == 100_002
    assert big["output"]["preview"].startswith('"xxx')
    assert small == {"output": [1, 2]}


def waiting(count: int, *, schema: str | None = None, message: str = "?" * 300, **fields: Any) -> RunSnapshot:
    waits = [
        OpenWait(wait_id=f"w{number}", task=f"t{number}", name="human", message=message, deadline_at=1.0)
        for number in range(count)
    ]
    records: dict[str, dict[str, Any]] = {wait.task: {"output": 1} for wait in waits}
    return snapshot(records, open_waits=waits, wait_message=message, wait_schema=schema, **fields)


def test_large_wait_texts_are_cut_first() -> None:
    long = waiting(3, schema=json.dumps({"description": "x" * 50_000}))
    compacted = compact_run_snapshot(long, 10_000)
    assert "GET /waits/w0" in json.loads(compacted.wait_schema or "")["$comment"]
    assert (compacted.tasks, records_of(compacted)) == (long.tasks, records_of(long))
    assert not compacted.task_records_truncated
    assert compacted.open_waits == long.open_waits


def test_every_wait_id_is_kept() -> None:
    many = waiting(300, message="話" * 300)
    compacted = compact_run_snapshot(many, 60_000)
    assert len(encode(compacted)) <= 60_000
    assert isinstance(compacted.open_waits, list)
    assert [wait.wait_id for wait in compacted.open_waits] == [f"w{number}" for number in range(300)]
    assert [bool(wait.message) for wait in compacted.open_waits] == [True] * 20 + [False] * 280
    assert compacted.tasks == many.tasks


def test_wait_texts_are_cut_before_task_states() -> None:
    run = waiting(1, schema=json.dumps({"description": "x" * 6000}))
    run.tasks = {f"task-{number:05}": TaskStatus.WAITING for number in range(1500)}
    run.task_records = {}
    compacted = compact_run_snapshot(run, 40_000)
    assert len(encode(compacted)) <= 40_000
    assert compacted.tasks == run.tasks
    assert "$comment" in (compacted.wait_schema or "")


def test_short_wait_texts_are_kept_when_records_are_large() -> None:
    run = waiting(2, schema='{"type":"boolean"}')
    run.task_records = {"t0": Raw(msgspec.json.encode({"output": "x" * 100_000}))}
    compacted = compact_run_snapshot(run, 10_000)
    assert compacted.task_records_truncated
    assert (compacted.wait_schema, compacted.open_waits) == (run.wait_schema, run.open_waits)


def test_then_values_are_dropped_and_record_states_kept() -> None:
    records = {f"t{n}": {"state": "FAILED", "error": "e", "output": "x" * 2000} for n in range(50)}
    compacted = compact_run_snapshot(snapshot(records), 10_000)
    assert records_of(compacted)["t7"] == {"state": "FAILED", "error": "e", "truncated": ["output"]}


def test_then_records_are_dropped_and_task_states_kept() -> None:
    records = {f"t{n}": {"state": "SUCCEEDED", "error": "e" * 300} for n in range(100)}
    compacted = compact_run_snapshot(snapshot(records), 10_000)
    assert records_of(compacted) == {}
    assert len(compacted.tasks) == 100
    assert compacted.task_records_truncated


def test_task_states_are_dropped_last_and_reported() -> None:
    compacted = compact_run_snapshot(snapshot({"t" * 100 + str(n): {} for n in range(100)}), 4000)
    assert compacted.tasks == {}
    assert compacted.status is RunStatus.COMPLETED
    assert compacted.error is not None
    assert "ERR-PYOCO-0010" in compacted.error
    assert "PYOCO_MAX_RUN_SNAPSHOT_BYTES=4000" in compacted.error


@given(
    records=st.dictionaries(
        st.text(min_size=1, max_size=20),
        st.fixed_dictionaries(
            {"state": st.just("FAILED")},
            optional={
                "output": st.recursive(st.text(max_size=5000), lambda inner: st.lists(inner, max_size=4)),
                "traceback": st.text(max_size=5000),
                "error": st.text(max_size=500),
            },
        ),
        max_size=12,
    ),
    error=st.none() | st.text(max_size=20_000),
)
def test_compaction_fits_any_records_and_is_idempotent(
    records: dict[str, dict[str, Any]], error: str | None
) -> None:
    limit = 16_384
    compacted = compact_run_snapshot(snapshot(records, error=error), limit)
    assert len(encode(compacted)) <= limit
    assert compact_run_snapshot(compacted, limit) == compacted
    assert compacted.status is RunStatus.COMPLETED
