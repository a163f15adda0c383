"""The size limit of snapshots: what is given up first, and that it always fits."""

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from pyoco_server.models import RunSnapshot, RunStatus, TaskStatus, encode, new_run_id
from pyoco_server.runs.compaction import compact_run_snapshot


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


def test_a_snapshot_that_fits_is_left_as_it_is() -> None:
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


def test_then_values_go_and_the_state_of_each_record_stays() -> None:
    records = {f"t{n}": {"state": "FAILED", "error": "e", "output": "x" * 2000} for n in range(50)}
    compacted = compact_run_snapshot(snapshot(records), 10_000)
    assert records_of(compacted)["t7"] == {"state": "FAILED", "error": "e", "truncated": ["output"]}


def test_then_records_go_and_task_states_stay() -> None:
    records = {f"t{n}": {"state": "SUCCEEDED", "error": "e" * 300} for n in range(100)}
    compacted = compact_run_snapshot(snapshot(records), 10_000)
    assert records_of(compacted) == {}
    assert len(compacted.tasks) == 100
    assert compacted.task_records_truncated


def test_at_last_task_states_go_and_the_error_says_so() -> None:
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
def test_whatever_the_records_it_fits_and_twice_is_once(
    records: dict[str, dict[str, Any]], error: str | None
) -> None:
    limit = 16_384
    compacted = compact_run_snapshot(snapshot(records, error=error), limit)
    assert len(encode(compacted)) <= limit
    assert compact_run_snapshot(compacted, limit) == compacted
    assert compacted.status is RunStatus.COMPLETED
