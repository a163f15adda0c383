"""The check of occurrences: each broken promise is found."""

import pytest
from msgspec import structs

from pyoco_server.records.runs.causes import Cause, CauseKind
from pyoco_server.records.runs.run_models import new_run_id
from pyoco_server.records.schedules.schedule_models import (
    DecisionOutcome,
    ScheduleDecision,
    ScheduleRecord,
    ScheduleSpec,
    SkipReason,
)
from tests.faults.chaos.scheduling import check_occurrences
from tests.support.samples.schedules import a_schedule

FIRST, SECOND = new_run_id(), new_run_id()
RUNS = {
    FIRST: Cause(kind=CauseKind.SCHEDULE, id="s", at=101.0),
    SECOND: Cause(kind=CauseKind.SCHEDULE, id="s", at=104.0),
}


def _decision(
    at: float, outcome: DecisionOutcome, run_id: str | None = None, count: int = 1
) -> ScheduleDecision:
    reason = None if outcome is DecisionOutcome.STARTED else SkipReason.OVERLAP
    return ScheduleDecision(
        at=at, scheduled_for=at, outcome=outcome, run_id=run_id, count=count, reason=reason
    )


STARTED = _decision(101.0, DecisionOutcome.STARTED, FIRST)
SKIPPED = _decision(102.0, DecisionOutcome.SKIPPED, FIRST)
BOTH_SKIPPED = _decision(102.0, DecisionOutcome.SKIPPED, FIRST, count=2)
WAITS = _decision(104.0, DecisionOutcome.BUFFERED, SECOND)
STARTED_LATER = _decision(104.0, DecisionOutcome.STARTED, SECOND)


def _versions(*decisions: list[ScheduleDecision], cursors: list[float]) -> dict[str, list[ScheduleRecord]]:
    made = a_schedule("s", spec=ScheduleSpec(every_sec=1), cursor=100.2)
    later = [
        structs.replace(made, cursor=cursor, decisions=list(some))
        for cursor, some in zip(cursors, decisions, strict=True)
    ]
    return {"s": [made, *later]}


KEPT = _versions(
    [STARTED], [STARTED, SKIPPED], [BOTH_SKIPPED], [WAITS], [STARTED_LATER], cursors=[101, 102, 103, 104, 104]
)


def test_one_run_or_one_reason_for_each() -> None:
    report = check_occurrences(KEPT, RUNS)
    assert (report.started, report.skipped, report.wrong) == (2, 2, [])


def test_an_occurrence_without_a_decision_is_found() -> None:
    assert "not decided" in check_occurrences(_versions([STARTED], cursors=[102]), RUNS).wrong[0]


@pytest.mark.parametrize(
    "second",
    [_decision(101.0, DecisionOutcome.SKIPPED), _decision(101.0, DecisionOutcome.STARTED, SECOND)],
    ids=["a run and a reason", "two runs"],
)
def test_a_second_decision_is_found(second: ScheduleDecision) -> None:
    wrong = check_occurrences(_versions([STARTED], [second], cursors=[101, 101]), RUNS).wrong
    assert wrong[0].startswith("s at 101.0: ")


def test_a_missing_run_is_found() -> None:
    assert check_occurrences(KEPT, {FIRST: RUNS[FIRST]}).wrong == [f"s at 104.0: run {SECOND} is None"]


def test_a_run_without_a_decision_is_found() -> None:
    third = new_run_id()
    wrong = check_occurrences(KEPT, {**RUNS, third: RUNS[FIRST]}).wrong
    assert wrong == [f"run {third} without a decision: schedule:s"]


def test_a_run_for_another_time_is_found() -> None:
    other = Cause(kind=CauseKind.SCHEDULE, id="s", at=105.0)
    assert len(check_occurrences(KEPT, {**RUNS, SECOND: other}).wrong) == 1
