"""Triggers and backfills: starts that people ask for."""

import pytest
from msgspec import structs

from pyoco_server.errors import InvalidRequest, ScheduleBusy, ScheduleConflict
from pyoco_server.records.schedule_models import Overlap, ScheduleSpec, StartedBy
from pyoco_server.schedules.deciding import backfill_count, edited, paused, triggered, with_backfill
from tests.unit.schedules.simulation import NOON, Simulation, schedule

DAY_SEC = 86_400.0


def _trigger(each: Simulation, at: float, *, overlap: Overlap | None = None, trigger_id: str = "t1") -> str:
    done = triggered(each.record, now=NOON + at, trigger_id=trigger_id, facts=each.facts, overlap=overlap)
    each.store(done.record)
    return done.run_id


def test_a_trigger_uses_up_no_occurrence() -> None:
    each = Simulation(schedule(overlap=Overlap.ALLOW_ALL, remaining_runs=2))
    run_id = _trigger(each, 5)
    each.run_until(30)
    assert each.times == [5, 10, 20]
    assert next(iter(each.started)) == run_id
    assert each.record.remaining_runs == 0
    assert each.record.decisions[0].by is StartedBy.TRIGGER


def test_triggers_are_different_runs() -> None:
    each = Simulation(schedule(overlap=Overlap.ALLOW_ALL))
    assert _trigger(each, 5) != _trigger(each, 5, trigger_id="t2")


def test_a_trigger_works_while_paused() -> None:
    each = Simulation(paused(schedule(), note="", now=NOON))
    _trigger(each, 5)
    assert each.times == [5]
    assert each.record.paused


def test_a_trigger_is_refused_while_a_run_is_open() -> None:
    each = Simulation(schedule())
    each.look(10)
    (first,) = each.started
    with pytest.raises(ScheduleBusy, match=f"run {first} is RUNNING"):
        _trigger(each, 15)
    _trigger(each, 15, overlap=Overlap.ALLOW_ALL)
    assert each.times == [10, 15]


def test_a_trigger_starts_when_the_earlier_run_has_ended() -> None:
    each = Simulation(schedule(overlap=Overlap.BUFFER_ONE))
    each.look(10)
    run_id = _trigger(each, 15)
    assert each.times == [10]
    with pytest.raises(ScheduleBusy, match="1 are waiting"):
        _trigger(each, 16, trigger_id="t2")
    each.end_all()
    each.look(17)
    assert list(each.started)[-1] == run_id


def test_a_trigger_has_its_own_params() -> None:
    done = triggered(schedule(), now=NOON + 5, trigger_id="t1", facts={}, params={"day": "monday"})
    assert done.record.starts[0].params == {"day": "monday"}


def _backfill(each: Simulation, start: float, end: float, overlap: Overlap | None = None) -> None:
    each.record = with_backfill(
        each.record, now=NOON, backfill_id="b1", from_at=NOON + start, to_at=NOON + end, overlap=overlap
    )


HOURLY = ScheduleSpec(cron=["@hourly"])


def test_a_backfill_of_a_day_starts_one_after_the_other() -> None:
    each = Simulation(schedule(HOURLY))
    assert backfill_count(each.record, from_at=NOON - DAY_SEC, to_at=NOON) == 24
    _backfill(each, -DAY_SEC, 0)
    for second in range(60):
        each.look(second)
        assert len(each.open_runs) <= 1
        each.end_all()
    assert each.times == [-DAY_SEC + 3600 * number for number in range(24)]
    assert each.record.backfills == []
    assert each.record.counts == {"started": 24}
    assert each.record.cursor == NOON
    assert {decision.by for decision in each.record.decisions} == {StartedBy.BACKFILL}


def test_a_backfill_may_start_all_at_once() -> None:
    each = Simulation(schedule(ScheduleSpec(cron=["*/5 * * * *"])))
    _backfill(each, -DAY_SEC, 0, Overlap.ALLOW_ALL)
    each.look(1)
    assert len(each.times) == 288
    assert each.record.backfills == []


def test_a_backfill_starts_again_what_has_run() -> None:
    each = Simulation(schedule(HOURLY, overlap=Overlap.ALLOW_ALL))
    each.look(3600)
    each.record = with_backfill(
        each.record, now=NOON + 3601, backfill_id="b", from_at=NOON + 3600, to_at=NOON + 3601
    )
    each.end_all()
    each.look(3602)
    assert each.times == [3600, 3600]


def test_a_backfill_goes_on_while_the_schedule_is_paused() -> None:
    each = Simulation(paused(schedule(HOURLY), note="", now=NOON))
    _backfill(each, -7200, 0, Overlap.ALLOW_ALL)
    each.look(8000)
    assert each.times == [-7200, -3600]


def test_backfills_follow_each_other() -> None:
    each = Simulation(schedule(HOURLY))
    for name, start in (("b1", -7200.0), ("b2", -36_000.0)):
        each.record = with_backfill(
            each.record, now=NOON, backfill_id=name, from_at=NOON + start, to_at=NOON + start + 3601
        )
    for second in range(9):
        each.look(second)
        each.end_all()
    assert each.times == [-7200, -3600, -36_000, -32_400]


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
    each = Simulation(schedule(spec))
    with pytest.raises(InvalidRequest) as caught:
        _backfill(each, start, end)
    (problem,) = caught.value.problems
    assert (problem.field, problem.value) == ("to", str(NOON + end))
    assert text in problem.message


def test_the_number_of_backfills_is_limited() -> None:
    each = Simulation(schedule(HOURLY))
    for _ in range(10):
        _backfill(each, -7200, 0)
    with pytest.raises(ScheduleConflict, match="10 backfills"):
        _backfill(each, -7200, 0)


def test_an_edit_keeps_a_backfill() -> None:
    each = Simulation(schedule(HOURLY))
    _backfill(each, -7200, 0)
    changed = structs.replace(each.record, note="x", backfills=[])
    assert len(edited(each.record, changed, now=NOON + 1).backfills) == 1
