"""Triggers and backfills: starts that people ask for."""

import pytest
from msgspec import structs

from pyoco_server.errors import BackfillNotFound, InvalidRequest, ScheduleBusy, ScheduleFull
from pyoco_server.records.schedules.schedule_models import (
    Backfill,
    DecisionOutcome,
    Overlap,
    ScheduleSpec,
    SkipReason,
    StartedBy,
)
from pyoco_server.schedules.calendar_times import iso_in_zone
from pyoco_server.schedules.schedule_transitions import (
    backfill_cancelled,
    backfill_count,
    decide,
    edited,
    paused,
    remaining_of,
    start_failed,
    triggered,
    with_backfill,
)
from tests.unit.schedules.simulation import NOON, Simulation, schedule

DAY_SEC = 86_400.0


def _trigger(
    simulation: Simulation, at: float, *, overlap: Overlap | None = None, trigger_id: str = "t1"
) -> str:
    done = triggered(
        simulation.record,
        now=NOON + at,
        trigger_id=trigger_id,
        earlier_runs=simulation.earlier_runs,
        overlap=overlap,
    )
    simulation.store(done.record)
    return done.run_id


def test_a_trigger_uses_up_no_occurrence() -> None:
    simulation = Simulation(schedule(overlap=Overlap.ALLOW_ALL, remaining_runs=2))
    run_id = _trigger(simulation, 5)
    simulation.run_until(30)
    assert simulation.times == [5, 10, 20]
    assert next(iter(simulation.started)) == run_id
    assert simulation.record.remaining_runs == 0
    assert simulation.record.decisions[0].by is StartedBy.TRIGGER


def test_triggers_are_different_runs() -> None:
    simulation = Simulation(schedule(overlap=Overlap.ALLOW_ALL))
    assert _trigger(simulation, 5) != _trigger(simulation, 5, trigger_id="t2")


def test_a_trigger_works_while_paused() -> None:
    simulation = Simulation(paused(schedule(), note="", now=NOON))
    _trigger(simulation, 5)
    assert simulation.times == [5]
    assert simulation.record.paused


@pytest.mark.parametrize("waiting", [Overlap.BUFFER_ONE, Overlap.BUFFER_ALL])
def test_a_trigger_that_ends_others_does_not_wait_behind_one_that_waits(waiting: Overlap) -> None:
    simulation = Simulation(schedule())
    simulation.look(10)
    (first,) = simulation.started
    _trigger(simulation, 12, overlap=waiting)
    last = _trigger(simulation, 15, overlap=Overlap.TERMINATE_OTHER, trigger_id="t2")
    decided = simulation.look(16)
    assert (decided.runs_to_cancel, decided.terminate) == ((first,), True)
    assert [start.run_id for start in simulation.record.buffer] == [last]
    assert ("skipped", 12, 1) in simulation.decisions
    assert simulation.record.decisions[1].reason == SkipReason.REPLACED
    simulation.end(first)
    simulation.look(17)
    assert simulation.times == [10, 15]


def test_a_trigger_is_refused_while_a_run_is_open() -> None:
    simulation = Simulation(schedule())
    simulation.look(10)
    (first,) = simulation.started
    with pytest.raises(ScheduleBusy, match=f"run {first} is RUNNING"):
        _trigger(simulation, 15)
    _trigger(simulation, 15, overlap=Overlap.ALLOW_ALL)
    assert simulation.times == [10, 15]


def test_a_trigger_starts_when_the_earlier_run_has_ended() -> None:
    simulation = Simulation(schedule(overlap=Overlap.BUFFER_ONE))
    simulation.look(10)
    run_id = _trigger(simulation, 15)
    assert simulation.times == [10]
    with pytest.raises(ScheduleBusy, match="1 are waiting"):
        _trigger(simulation, 16, trigger_id="t2")
    simulation.end_all()
    simulation.look(17)
    assert list(simulation.started)[-1] == run_id


def test_a_trigger_has_its_own_params() -> None:
    done = triggered(schedule(), now=NOON + 5, trigger_id="t1", earlier_runs={}, params={"day": "monday"})
    assert done.record.starts[0].params == {"day": "monday"}


def _backfill(simulation: Simulation, start: float, end: float, overlap: Overlap | None = None) -> None:
    simulation.record = with_backfill(
        simulation.record, now=NOON, backfill_id="b1", from_at=NOON + start, to_at=NOON + end, overlap=overlap
    )


HOURLY = ScheduleSpec(cron=["@hourly"])


def test_a_backfill_of_a_day_starts_one_after_the_other() -> None:
    simulation = Simulation(schedule(HOURLY))
    assert backfill_count(simulation.record, from_at=NOON - DAY_SEC, to_at=NOON) == 24
    _backfill(simulation, -DAY_SEC, 0)
    for second in range(60):
        simulation.look(second)
        assert len(simulation.open_runs) <= 1
        simulation.end_all()
    assert simulation.times == [-DAY_SEC + 3600 * number for number in range(24)]
    assert simulation.record.backfills == []
    assert simulation.record.counts == {"started": 24}
    assert simulation.record.cursor == NOON
    assert {decision.by for decision in simulation.record.decisions} == {StartedBy.BACKFILL}


def test_a_backfill_may_start_all_at_once() -> None:
    simulation = Simulation(schedule(ScheduleSpec(cron=["*/5 * * * *"])))
    _backfill(simulation, -DAY_SEC, 0, Overlap.ALLOW_ALL)
    simulation.look(1)
    assert len(simulation.times) == 288
    assert simulation.record.backfills == []


def test_a_backfill_starts_again_what_has_run() -> None:
    simulation = Simulation(schedule(HOURLY, overlap=Overlap.ALLOW_ALL))
    simulation.look(3600)
    simulation.record = with_backfill(
        simulation.record, now=NOON + 3601, backfill_id="b", from_at=NOON + 3600, to_at=NOON + 3601
    )
    simulation.end_all()
    simulation.look(3602)
    assert simulation.times == [3600, 3600]


def test_a_backfill_goes_on_while_the_schedule_is_paused() -> None:
    simulation = Simulation(paused(schedule(HOURLY), note="", now=NOON))
    _backfill(simulation, -7200, 0, Overlap.ALLOW_ALL)
    simulation.look(8000)
    assert simulation.times == [-7200, -3600]


def test_backfills_follow_each_other() -> None:
    simulation = Simulation(schedule(HOURLY))
    for name, start in (("b1", -7200.0), ("b2", -36_000.0)):
        simulation.record = with_backfill(
            simulation.record, now=NOON, backfill_id=name, from_at=NOON + start, to_at=NOON + start + 3601
        )
    for second in range(9):
        simulation.look(second)
        simulation.end_all()
    assert simulation.times == [-7200, -3600, -36_000, -32_400]


@pytest.mark.parametrize(
    ("spec", "start", "end", "text"),
    [
        (ScheduleSpec(every_sec=1), -365 * DAY_SEC, 0, "shorten it"),
        (ScheduleSpec(cron=["* * * * *"]), -365 * DAY_SEC, 0, "shorten it"),
        (HOURLY, 0, -DAY_SEC, "after from"),
        (HOURLY, 0, DAY_SEC, "not in the future"),
    ],
)
def test_a_bad_period_is_refused(spec: ScheduleSpec, start: float, end: float, text: str) -> None:
    simulation = Simulation(schedule(spec))
    with pytest.raises(InvalidRequest) as caught:
        _backfill(simulation, start, end)
    (problem,) = caught.value.problems
    assert (problem.field, problem.value) == ("to", iso_in_zone(NOON + end, "UTC"))
    assert text in problem.message


def test_the_number_of_backfills_is_limited() -> None:
    simulation = Simulation(schedule(HOURLY))
    for _ in range(10):
        _backfill(simulation, -7200, 0)
    with pytest.raises(ScheduleFull, match="10 backfills"):
        _backfill(simulation, -7200, 0)


def test_an_edit_keeps_a_backfill() -> None:
    simulation = Simulation(schedule(HOURLY))
    _backfill(simulation, -7200, 0)
    changed = structs.replace(simulation.record, note="x", backfills=[])
    assert len(edited(simulation.record, changed, now=NOON + 1).backfills) == 1


def test_an_edit_that_makes_a_backfill_too_large_is_refused() -> None:
    """A backfill goes on with the new times: it has to stay below the limit of its request."""
    simulation = Simulation(schedule(HOURLY))
    _backfill(simulation, -365 * DAY_SEC, 0)
    changed = structs.replace(simulation.record, spec=ScheduleSpec(every_sec=1))
    with pytest.raises(InvalidRequest) as caught:
        edited(simulation.record, changed, now=NOON + 1)
    (problem,) = caught.value.problems
    assert problem.field == "spec"
    assert "backfill b1" in problem.message
    cure = f"cancel it first: DELETE /schedules/{simulation.record.schedule_id}/backfills/b1"
    assert problem.message.endswith(cure)


def test_an_edit_counts_a_backfill_again() -> None:
    simulation = Simulation(schedule(HOURLY))
    _backfill(simulation, -DAY_SEC, 0)
    simulation.look(0)
    (before,) = simulation.record.backfills
    assert (before.count, before.started) == (24, 1)
    changed = structs.replace(simulation.record, spec=ScheduleSpec(every_sec=1800))
    record = edited(simulation.record, changed, now=NOON + 1)
    (after,) = record.backfills
    assert (after.started, remaining_of(record, after), after.count) == (1, 47, 48)


def test_a_cancelled_backfill_skips_what_it_has_not_started() -> None:
    simulation = Simulation(schedule(HOURLY))
    _backfill(simulation, -DAY_SEC, 0)
    for second in range(3):
        simulation.end_all()
        simulation.look(second)
    (backfill,) = simulation.record.backfills
    assert (backfill.count, backfill.started, remaining_of(simulation.record, backfill)) == (24, 3, 21)
    cancelled = backfill_cancelled(simulation.record, "b1", now=NOON + 3)
    assert (cancelled.started, cancelled.skipped) == (3, 21)
    record = simulation.record = cancelled.record
    assert (record.backfills, record.counts) == ([], {"started": 3, "skipped": 21})
    reason = record.decisions[-1]
    assert (reason.outcome, reason.reason) == (DecisionOutcome.SKIPPED, SkipReason.BACKFILL_CANCELLED)
    assert (reason.count, reason.by, reason.backfill_id) == (21, StartedBy.BACKFILL, "b1")
    assert (reason.scheduled_for, reason.until) == (NOON - DAY_SEC + 3 * 3600, NOON - 3600)
    simulation.end_all()
    simulation.look(60)
    assert len(simulation.times) == 3
    with pytest.raises(BackfillNotFound, match="no backfill 'b1' of schedule"):
        backfill_cancelled(simulation.record, "b1", now=NOON + 61)


def test_what_a_backfill_has_buffered_is_cancelled_too() -> None:
    simulation = Simulation(schedule(HOURLY))
    _backfill(simulation, -3 * 3600, 0, Overlap.CANCEL_OTHER)
    simulation.look(1)
    # The first run is being cancelled, the last occurrence waits for its end, the one between is replaced.
    (backfill,) = simulation.record.backfills
    assert (backfill.started, remaining_of(simulation.record, backfill)) == (1, 1)
    record = backfill_cancelled(simulation.record, "b1", now=NOON + 2).record
    assert (record.buffer, record.backfills, record.counts) == ([], [], {"started": 1, "skipped": 2})
    assert [decision.reason for decision in record.decisions] == [None, "replaced", "backfill_cancelled"]


def test_a_replaced_trigger_is_found_by_the_id_of_its_response() -> None:
    simulation = Simulation(schedule(HOURLY))
    simulation.look(3600)
    buffered = [
        _trigger(simulation, 3600 + number, overlap=Overlap.BUFFER_ALL, trigger_id=f"t{number}")
        for number in (1, 2)
    ]
    last = _trigger(simulation, 3603, overlap=Overlap.CANCEL_OTHER, trigger_id="t3")
    replaced = [each for each in simulation.record.decisions if each.reason == SkipReason.REPLACED]
    assert [(each.dropped_run_id, each.run_id, each.count) for each in replaced] == [
        (run_id, None, 1) for run_id in buffered
    ]
    assert [start.run_id for start in simulation.record.buffer] == [last]


def test_a_backfill_ends_when_its_buffered_runs_have_started() -> None:
    simulation = Simulation(schedule(HOURLY))
    _backfill(simulation, -3 * 3600, 0, Overlap.BUFFER_ONE)
    simulation.look(1)
    assert [each.backfill_id for each in simulation.record.backfills] == ["b1"]
    simulation.end_all()
    simulation.look(2)
    assert (simulation.record.backfills, simulation.times) == ([], [-3 * 3600, -2 * 3600])


def test_only_the_named_backfill_is_cancelled() -> None:
    simulation = Simulation(schedule(HOURLY))
    for name in ("b1", "b2"):
        simulation.record = with_backfill(
            simulation.record, now=NOON, backfill_id=name, from_at=NOON - 7200, to_at=NOON
        )
    simulation.look(1)
    simulation.record = backfill_cancelled(simulation.record, "b1", now=NOON + 2).record
    for second in range(3, 9):
        simulation.end_all()
        simulation.look(second)
    assert simulation.times == [-7200, -7200, -3600]
    assert simulation.record.counts == {"started": 3, "skipped": 1}


def test_a_start_that_failed_is_not_counted_as_started() -> None:
    simulation = Simulation(schedule(HOURLY))
    _backfill(simulation, -7200, 0)
    decided = decide(simulation.record, now=NOON + 1, earlier_runs={}).record
    failed = start_failed(decided, decided.starts[0].run_id, "too large", now=NOON + 1)
    assert (decided.backfills[0].started, failed.backfills[0].started) == (1, 0)


def test_a_backfill_of_an_earlier_version_can_be_cancelled() -> None:
    record = schedule(HOURLY)
    old = Backfill(backfill_id="old", from_at=NOON - 7200, to_at=NOON, cursor=NOON - 7201, requested_at=NOON)
    cancelled = backfill_cancelled(structs.replace(record, backfills=[old]), "old", now=NOON)
    assert (cancelled.started, cancelled.skipped) == (0, 2)
