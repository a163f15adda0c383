"""Triggers and backfills: starts that people ask for."""

import pytest
from msgspec import structs

from pyoco_server.errors import InvalidRequest, ScheduleBusy, ScheduleConflict
from pyoco_server.records.schedule_models import Overlap, ScheduleSpec, StartedBy
from pyoco_server.schedules.schedule_transitions import (
    backfill_count,
    edited,
    paused,
    triggered,
    with_backfill,
)
from tests.unit.schedules.simulation import NOON, Simulation, schedule

DAY_SEC = 86_400.0


def _trigger(
    simulation: Simulation, at: float, *, overlap: Overlap | None = None, trigger_id: str = "t1"
) -> str:
    done = triggered(
        simulation.record, now=NOON + at, trigger_id=trigger_id, facts=simulation.facts, overlap=overlap
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
    done = triggered(schedule(), now=NOON + 5, trigger_id="t1", facts={}, params={"day": "monday"})
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
    assert (problem.field, problem.value) == ("to", str(NOON + end))
    assert text in problem.message


def test_the_number_of_backfills_is_limited() -> None:
    simulation = Simulation(schedule(HOURLY))
    for _ in range(10):
        _backfill(simulation, -7200, 0)
    with pytest.raises(ScheduleConflict, match="10 backfills"):
        _backfill(simulation, -7200, 0)


def test_an_edit_keeps_a_backfill() -> None:
    simulation = Simulation(schedule(HOURLY))
    _backfill(simulation, -7200, 0)
    changed = structs.replace(simulation.record, note="x", backfills=[])
    assert len(edited(simulation.record, changed, now=NOON + 1).backfills) == 1
