"""`pyoco-client compare`."""

from typing import Any

from msgspec import Raw

from pyoco_server.cli.commands.runs.run_comparison import compared
from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus
from tests.support.broker.connections import SyncConnection
from tests.support.broker.stored_runs import ended, write_many
from tests.support.commands import ClientCommand


def record(took: float, rows: int) -> Raw:
    return Raw(b'{"started_at": 100, "ended_at": %f, "output": {"rows": %d}}' % (100 + took, rows))


def two_runs() -> tuple[RunSnapshot, RunSnapshot]:
    common: dict[str, Any] = {"flow_name": "etl", "at": 2_000.0}
    earlier = ended(
        **common,
        params={"month": 10, "dry": True, "lines": [1, 2]},
        tasks={"load": "SUCCEEDED", "send": "SUCCEEDED"},
        task_records={"load": record(2, 5), "send": record(1, 7)},
        worker_id="w1",
        code_version="aaaa000011112222",
    )
    later = ended(
        RunStatus.FAILED,
        **common,
        params={"month": 11, "dry": True, "lines": [1, 3]},
        tasks={"load": "SUCCEEDED", "send": "FAILED"},
        task_records={"load": record(5, 6), "send": record(1, 7)},
        worker_id="w2",
        code_version="bbbb000011112222",
        reason="execution_error",
        error="Task send failed: refused",
    )
    return earlier, later


def lines(table: str) -> list[str]:
    return [" ".join(line.split()) for line in table.splitlines()]


def test_the_differences_of_two_runs_are_shown(
    client: ClientCommand, shared_nats_connection: SyncConnection
) -> None:
    earlier, later = two_runs()
    shared_nats_connection.do(lambda connection: write_many(connection, [earlier, later]))
    ids = earlier.run_id, later.run_id

    shown = lines(client.table("compare", *ids, columns=140))
    assert f"{ids[0][:8]} {ids[1][:8]}" in shown
    assert "status COMPLETED FAILED" in shown
    assert "code version aaaa000011112222 bbbb000011112222" in shown
    assert "worker w1 w2" in shown
    assert "month 10 11" in shown
    assert "lines[1] 2 3" in shown
    assert "load SUCCEEDED 2s SUCCEEDED 5s 3s longer" in shown
    assert "load.rows 5 6" in shown
    assert not [line for line in shown if line.startswith(("dry", "send.rows", "tag"))]

    everything = lines(client.table("compare", *ids, "--all", columns=140))
    assert {"dry true true", "send.rows 7 7", "tag default default"} <= set(everything)

    found = client.json("compare", *ids)
    assert {"name": "month", "a": 10, "b": 11, "differs": True} in found["params"]
    assert {"name": "dry", "a": True, "b": True, "differs": False} in found["params"]
    [load] = [task for task in found["tasks"] if task["name"] == "load"]
    assert (load["a_took_sec"], load["b_took_sec"]) == (2, 5)


def test_a_run_does_not_differ_from_itself(client: ClientCommand, ended_run: str) -> None:
    found = client.json("compare", ended_run, ended_run)
    compared = [*found["facts"], *found["params"], *found["outputs"], *found["result"]]
    assert found["outputs"]
    assert not [each for each in compared if each["differs"]]


def test_a_table_says_that_nothing_differs(
    client: ClientCommand, shared_nats_connection: SyncConnection
) -> None:
    """Durations differ by chance."""
    first = ended(flow_name="etl", at=2_000.0, start_time=1_999.0)
    second = ended(flow_name="etl", at=2_000.0, start_time=1_999.01)
    shared_nats_connection.do(lambda connection: write_many(connection, [first, second]))
    shown = lines(client.table("compare", first.run_id, second.run_id))
    assert "No differences." in shown
    assert not [line for line in shown if line.startswith(("took", "in queue", "(whole value)"))]


def test_values_that_one_of_the_runs_does_not_have_are_the_only_rows(
    client: ClientCommand, shared_nats_connection: SyncConnection
) -> None:
    with_values = ended(
        params={"month": 10}, tasks={"load": "SUCCEEDED"}, task_records={"load": record(2, 5)}
    )
    without = ended(params={}, tasks={"load": "SUCCEEDED"}, task_records={})
    shared_nats_connection.do(lambda connection: write_many(connection, [with_values, without]))
    found = client.json("compare", with_values.run_id, without.run_id)
    assert found["params"] == [{"name": "month", "a": 10, "differs": True}]
    assert found["outputs"] == [{"name": "load.rows", "a": 5, "differs": True}]


def test_large_params_with_the_same_beginning_differ(
    client: ClientCommand, shared_nats_connection: SyncConnection
) -> None:
    cut = {"text": {"truncated": True, "bytes": 9_000, "preview": "a" * 10}}
    runs = [ended(params=cut, params_sha256=digit * 64, params_bytes=9_010) for digit in "12"]
    shared_nats_connection.do(lambda connection: write_many(connection, runs))
    shown = lines(client.table("compare", *(run.run_id for run in runs)))
    assert f"all params {'1' * 12} {'2' * 12}" in shown
    assert "Only the beginning of large params and results is compared." in shown
    assert "No differences." not in shown


def test_large_results_of_different_sizes_differ() -> None:
    common = {"run_id": "r", "status": "COMPLETED", "params": {}, "tasks": {}}
    result = {"task": "load", "type": "json", "preview": "[1, 2", "is_cut": True}
    found = compared(
        {**common, "result": {**result, "bytes": 5_000}}, {**common, "result": {**result, "bytes": 6_000}}
    )
    assert [row["name"] for row in found["result"] if row["differs"]] == ["bytes"]
    assert found["is_cut"]


def test_an_unknown_run_and_a_missing_one_are_refused(client: ClientCommand, ended_run: str) -> None:
    assert "ERR-PYOCO" in client.error("compare", ended_run, "00000000-0000-4000-8000-000000000000")
    assert "RUN_ID" in client.error("compare", ended_run)
