"""The status of a request, from its file, its record and its latest run."""

from typing import Any

import pytest

from pyoco_server.agent.request_file import RequestFile
from pyoco_server.agent.requests.request_state import (
    REMOVED,
    is_active,
    open_question,
    phase_of_task,
    state_of,
)
from pyoco_server.agent.run_files import Stage, StepState
from pyoco_server.records.agent.request_models import (
    MAX_RUNS,
    RequestOutcome,
    RequestRecord,
    RequestRun,
    decode_request,
    with_run,
)
from pyoco_server.records.runs.run_models import OpenWait, RunSnapshot, RunStatus, WaitKind

RUN_ID = "00000000-0000-4000-8000-000000000001"


def file_with(status: str = "queued", **fields: str) -> RequestFile:
    lines = "".join(f"{name}: {value}\n" for name, value in {"status": status, **fields}.items())
    return RequestFile.parse("one", f"---\n{lines}---\n\n# 要望\n\nwant\n")


def record_with(*runs: RequestRun, **fields: Any) -> RequestRecord:
    record = RequestRecord(repo="repo-1", request_id="one", created_at=1.0, **fields)
    for run in runs:
        record = with_run(record, run)
    return record


def a_run(number: int = 1, **fields: Any) -> RequestRun:
    return RequestRun(number=number, run_id=RUN_ID, created_at=1.0, **fields)


def snapshot(status: RunStatus, **fields: Any) -> RunSnapshot:
    return RunSnapshot(
        run_id=RUN_ID,
        flow_name="agent_request",
        status=status,
        params={},
        tasks={},
        heartbeat_at=1.0,
        updated_at=1.0,
        **fields,
    )


def question(kind: WaitKind = WaitKind.HUMAN) -> OpenWait:
    return OpenWait(wait_id="w", task="plan", name="q", message="Which?", deadline_at=None, kind=kind)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (RunStatus.SCHEDULED, "queued"),
        (RunStatus.PENDING, "queued"),
        (RunStatus.RUNNING, "running"),
        (RunStatus.WAITING, "running"),
        (RunStatus.CANCELLING, "running"),
        (RunStatus.WAITING_HUMAN, "needs_input"),
        (RunStatus.FAILED, "failed"),
        (RunStatus.CANCELLED, "queued"),
    ],
)
def test_status_of_a_run_that_is_not_reconciled(status: RunStatus, expected: str) -> None:
    state = state_of(file_with("done"), record_with(a_run(stored=True)), snapshot(status))
    assert state.status == expected


def test_completed_run_needs_a_link_for_a_pull_request() -> None:
    record = record_with(a_run(stored=True))
    completed = snapshot(RunStatus.COMPLETED)
    assert state_of(file_with(), record, completed).status == "failed"
    stage = Stage(request_id="one", run_id="001", pr_url="https://x.example/1")
    assert state_of(file_with(), record, completed, stage).status == "done"


def test_stopped_run_without_saved_work_has_failed() -> None:
    record = record_with(a_run(stored=True))
    stage = Stage(request_id="one", run_id="001", branch="ai/one")
    state = state_of(file_with(), record, snapshot(RunStatus.CANCELLED), stage, work_saved=False)
    assert state.status == "failed"
    assert state.header_status.failure_reason is not None
    assert "WORK_NOT_SAVED" in state.header_status.failure_reason


@pytest.mark.parametrize("outcome", RequestOutcome)
def test_record_counts_more_than_the_file(outcome: RequestOutcome) -> None:
    record = record_with(a_run(stored=True, outcome=outcome))
    assert str(state_of(file_with("running"), record).status) == str(outcome)


@pytest.mark.parametrize("fields", [{"queued_at": 2.0}, {"withdrawn": True}], ids=str)
@pytest.mark.parametrize("outcome", RequestOutcome)
def test_request_in_the_queue_or_taken_out_of_it_is_queued_whatever_its_last_run(
    outcome: RequestOutcome, fields: dict[str, Any]
) -> None:
    record = record_with(a_run(stored=True, outcome=outcome), **fields)
    state = state_of(file_with("failed", failure_reason="x"), record)
    assert (state.status, state.header_status.failure_reason) == ("queued", None)


@pytest.mark.parametrize(("stored", "expected"), [(False, "queued"), (True, "failed")])
def test_run_without_a_snapshot_is_not_started_or_was_deleted(stored: bool, expected: str) -> None:
    assert state_of(file_with("running"), record_with(a_run(stored=stored))).status == expected


@pytest.mark.parametrize(
    ("status", "reason"), [("done", None), ("failed", "PUSH_FAILED: refused"), ("queued", None)]
)
def test_run_that_was_removed_after_its_end_has_ended_as_its_files_say(
    status: str, reason: str | None
) -> None:
    stage = Stage(
        request_id="one", run_id="001", status=status, failure_reason=reason, ended_at="2026-01-01T00:00:00Z"
    )
    state = state_of(file_with(status), record_with(a_run(stored=True)), None, stage)
    assert (state.status, state.header_status.failure_reason) == (status, reason)
    working = Stage(request_id="one", run_id="001")
    assert state_of(file_with(), record_with(a_run(stored=True)), None, working).status == "failed"


@pytest.mark.parametrize("status", ["cancelled", "running", None, ["done"], {}])
def test_end_that_no_run_can_have_is_not_believed(status: Any) -> None:
    """Programs of the repository can write to stage.json."""
    found = {"request_id": "one", "run_id": "001", "status": status, "ended_at": "2026-01-01T00:00:00Z"}
    state = state_of(file_with(), record_with(a_run(stored=True)), None, Stage.from_json(found))
    assert (state.status, state.header_status.failure_reason) == ("failed", REMOVED)


def test_values_of_another_type_in_a_stage_are_ignored() -> None:
    steps = [
        {"id": "S01", "title": "One", "state": ["done"], "commit": "abc"},
        {"id": 2, "title": "Two"},
        "S03",
    ]
    found = {
        "request_id": "one",
        "run_id": "001",
        "attempt": "x",
        "failure_reason": {},
        "new": 1,
        "steps": steps,
    }
    expected = Stage(request_id="one", run_id="001", steps=[StepState(id="S01", title="One", commit="abc")])
    assert Stage.from_json(found) == expected
    assert Stage.from_json({**found, "steps": "S01"}).steps == []


def test_outcome_of_a_later_version_is_a_failure() -> None:
    record = record_with(a_run(stored=True, outcome=RequestOutcome("abandoned")))
    assert state_of(file_with(), record).status == "failed"


@pytest.mark.parametrize("status", RunStatus)
def test_end_of_a_run_is_unnoted_until_the_record_has_it(status: RunStatus) -> None:
    run = snapshot(status)
    assert state_of(file_with(), record_with(a_run()), run).has_unrecorded_end is status.terminal
    noted = record_with(a_run(stored=True, outcome=RequestOutcome.DONE))
    assert not state_of(file_with(), noted, run).has_unrecorded_end


def test_run_that_is_not_stored_any_more_has_an_unnoted_end() -> None:
    assert state_of(file_with(), record_with(a_run(stored=True))).has_unrecorded_end
    assert not state_of(file_with(), record_with(a_run(stored=False))).has_unrecorded_end
    assert not state_of(file_with(), record_with()).has_unrecorded_end
    assert not state_of(file_with(), None).has_unrecorded_end


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ("queued", "queued"),
        ("done", "done"),
        ("failed", "failed"),
        ("running", "failed"),
        ("needs_input", "failed"),
    ],
)
def test_file_without_a_record_is_never_running(shown: str, expected: str) -> None:
    assert state_of(file_with(shown), None).status == expected


def test_question_is_that_of_a_parked_run_for_a_person() -> None:
    parked = snapshot(RunStatus.WAITING_HUMAN, open_waits=[question(WaitKind.SLEEP), question()])
    found = open_question(parked)
    assert found is not None
    assert found.kind is WaitKind.HUMAN
    assert open_question(snapshot(RunStatus.RUNNING, open_waits=[question()])) is None
    assert open_question(snapshot(RunStatus.WAITING_HUMAN)) is None


@pytest.mark.parametrize("status", [status for status in RunStatus])
def test_run_that_asks_a_person_leaves_the_worker_to_others(status: RunStatus) -> None:
    expected = status not in (
        RunStatus.WAITING_HUMAN,
        RunStatus.COMPLETED,
        RunStatus.FAILED,
        RunStatus.CANCELLED,
    )
    assert is_active(snapshot(status)) is expected


def test_record_keeps_its_newest_runs_and_counts_all() -> None:
    record = record_with(*(a_run(number) for number in range(1, MAX_RUNS + 6)))
    assert [record.runs[0].number, record.runs[-1].number] == [6, MAX_RUNS + 5]
    assert record.sequence == MAX_RUNS + 5
    changed = with_run(record, a_run(50, outcome=RequestOutcome.DONE))
    assert changed.sequence == MAX_RUNS + 5
    assert changed.open_run is not None


def test_phases_are_those_of_the_tasks_and_of_nothing_else() -> None:
    from pyoco_server.agent.flow.request_flow import agent_request  # noqa: PLC0415 - imports pyoco

    tasks = [task.name for task in agent_request.tasks]
    assert None not in [phase_of_task(name) for name in tasks]
    assert phase_of_task("[PHASE] done") is None
    assert phase_of_task(None) is None


def test_record_of_a_newer_version_is_read() -> None:
    record = decode_request(
        b'{"repo":"repo-1","request_id":"one","created_at":1.0,"new":1,'
        b'"runs":[{"number":1,"run_id":"%s","created_at":1.0,"outcome":"paused"}]}' % RUN_ID.encode()
    )
    assert record.latest is not None
    assert record.latest.outcome == "paused"
