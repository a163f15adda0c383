"""Decisions about occurrences: each has one run, or one reason."""

from collections import Counter
from itertools import pairwise

import pytest
from msgspec import structs

from pyoco_server.errors import ScheduleConflict
from pyoco_server.records.schedules.schedule_models import (
    MAX_DECISIONS,
    DecisionOutcome,
    Overlap,
    ScheduleSpec,
    SkipReason,
    StartedBy,
    decode_schedule,
    encode_schedule,
)
from pyoco_server.schedules.schedule_decider import MAX_BUFFERED, EarlierRun
from pyoco_server.schedules.schedule_directory import row_of
from pyoco_server.schedules.schedule_transitions import (
    decide,
    edited,
    next_due_at,
    outcomes_between,
    paused,
    resumed,
    runs_to_read,
    start_failed,
    waits_for_runs,
    without_starts,
)
from tests.unit.schedules.simulation import NOON, Simulation, schedule

DAY_SEC = 86_400
YEAR_SEC = 365 * DAY_SEC


def test_an_occurrence_starts_when_it_is_due_and_once() -> None:
    simulation = Simulation(schedule(overlap=Overlap.ALLOW_ALL))
    simulation.look(9.999)
    assert simulation.times == []
    for at in (10, 10, 15, 20.5):
        simulation.look(at)
    assert simulation.times == [10, 20]
    assert simulation.decisions == [("started", 10, 1), ("started", 20, 1)]
    assert simulation.record.counts == {"started": 2}
    assert next_due_at(simulation.record) == NOON + 30


def test_two_gateways_decide_the_same_runs() -> None:
    record = schedule(overlap=Overlap.ALLOW_ALL)
    first = decide(record, now=NOON + 25, earlier_runs={}).record
    second = decide(record, now=NOON + 25.3, earlier_runs={}).record
    assert [start.run_id for start in first.starts] == [start.run_id for start in second.starts]


def test_the_runs_of_a_schedule_that_is_made_again_have_other_ids() -> None:
    ids = [
        decide(structs.replace(schedule(), **change), now=NOON + 10, earlier_runs={}).record.starts[0].run_id
        for change in ({}, {"incarnation": "i2"}, {"tenant_id": "acme"}, {"schedule_id": "daily"})
    ]
    assert len(set(ids)) == 4


def test_nothing_changes_while_nothing_is_due() -> None:
    simulation = Simulation(schedule(ScheduleSpec(cron=["0 2 * * *"])))
    before = encode_schedule(simulation.record)
    simulation.look(7200)
    assert encode_schedule(simulation.record) == before


def test_a_clock_that_goes_back_starts_nothing_twice() -> None:
    simulation = Simulation(schedule(overlap=Overlap.ALLOW_ALL))
    simulation.look(35)
    simulation.look(5)
    simulation.look(39)
    assert simulation.times == [10, 20, 30]


# Overlap: every 10 s, and runs that take 30 s.


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        # 20 and 30 are skipped, 40 starts when the run of 10 has ended.
        (Overlap.SKIP, [10, 40, 70]),
        # 20 is buffered and starts at 40; 30 finds the buffer full; 40 is buffered then, and starts at 70.
        (Overlap.BUFFER_ONE, [10, 20, 40]),
        (Overlap.BUFFER_ALL, [10, 20, 30]),
        (Overlap.ALLOW_ALL, [10, 20, 30, 40, 50, 60, 70]),
    ],
)
def test_overlap_with_a_run_of_30_seconds(overlap: Overlap, expected: list[float]) -> None:
    simulation = Simulation(schedule(overlap=overlap))
    simulation.run_until(75, takes=30)
    assert simulation.times == expected


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.BUFFER_ONE, Overlap.ALLOW_ALL])
def test_each_occurrence_has_one_decision(overlap: Overlap) -> None:
    simulation = Simulation(schedule(overlap=overlap))
    simulation.run_until(75, takes=30)
    simulation.end_all()
    simulation.look(76)
    buffered = [start.scheduled_for - NOON for start in simulation.record.buffer]
    assert sorted(simulation.decided_times() + buffered) == [10, 20, 30, 40, 50, 60, 70]


@pytest.mark.parametrize("overlap", [Overlap.CANCEL_OTHER, Overlap.TERMINATE_OTHER])
def test_the_next_run_starts_only_when_the_cancelled_one_has_ended(overlap: Overlap) -> None:
    simulation = Simulation(schedule(overlap=overlap))
    simulation.look(10)
    (first,) = simulation.started
    decided = simulation.look(20)
    assert (decided.runs_to_cancel, decided.terminate) == ((first,), overlap is Overlap.TERMINATE_OTHER)
    assert simulation.times == [10]
    # It takes its time; meanwhile a later occurrence takes the place of the one that waits.
    assert simulation.look(31).runs_to_cancel == (first,)
    assert simulation.times == [10]
    simulation.end(first)
    assert simulation.look(33).runs_to_cancel == ()
    assert simulation.times == [10, 30]
    assert simulation.decisions == [("started", 10, 1), ("skipped", 20, 1), ("started", 30, 1)]
    assert simulation.record.decisions[1].reason == SkipReason.REPLACED


def test_a_skip_names_the_run_in_the_way_and_its_state() -> None:
    simulation = Simulation(schedule())
    simulation.look(10)
    (first,) = simulation.started
    simulation.earlier_runs[first] = EarlierRun(is_open=True, status="WAITING_HUMAN")
    simulation.look(20)
    assert (simulation.last.reason, simulation.last.run_id) == (SkipReason.OVERLAP, first)
    assert simulation.last.detail == f"run {first} is WAITING_HUMAN"


def test_equal_skips_in_a_row_are_one_decision() -> None:
    simulation = Simulation(schedule())
    simulation.run_until(500)
    assert simulation.decisions == [("started", 10, 1), ("skipped", 20, 49)]
    assert simulation.last.until == NOON + 500
    assert simulation.record.counts == {"started": 1, "skipped": 49}


def test_a_run_that_is_not_yet_stored_is_open() -> None:
    record = decide(schedule(), now=NOON + 10, earlier_runs={}).record
    again = decide(
        record, now=NOON + 20, earlier_runs={record.starts[0].run_id: EarlierRun(is_open=False)}
    ).record
    assert [start.scheduled_for - NOON for start in again.starts] == [10]
    assert again.decisions[-1].reason == SkipReason.OVERLAP


def test_a_buffered_start_is_decided_when_it_starts() -> None:
    simulation = Simulation(schedule(overlap=Overlap.BUFFER_ALL))
    simulation.run_until(20)
    simulation.end_all()
    (start,) = decide(simulation.record, now=NOON + 27, earlier_runs=simulation.earlier_runs).record.starts
    assert (start.scheduled_for, start.decided_at) == (NOON + 20, NOON + 27)


def test_a_buffer_has_a_limit() -> None:
    simulation = Simulation(schedule(ScheduleSpec(every_sec=1), overlap=Overlap.BUFFER_ALL))
    simulation.run_until(MAX_BUFFERED + 10)
    assert len(simulation.record.buffer) == MAX_BUFFERED
    assert (simulation.last.reason, simulation.last.count) == (SkipReason.BUFFER_FULL, 9)


def test_only_the_last_decisions_are_kept() -> None:
    simulation = Simulation(schedule(overlap=Overlap.ALLOW_ALL))
    simulation.run_until(400)
    assert len(simulation.record.decisions) == MAX_DECISIONS
    assert simulation.last.scheduled_for == NOON + 400
    assert simulation.record.counts == {"started": 40}


def test_earlier_runs_are_asked_for_only_if_they_matter() -> None:
    simulation = Simulation(schedule(overlap=Overlap.ALLOW_ALL))
    simulation.run_until(30)
    assert runs_to_read(simulation.record) == []
    assert len(runs_to_read(structs.replace(simulation.record, overlap=Overlap.SKIP))) == 3
    assert len(runs_to_read(structs.replace(simulation.record, pause_on_failure=True))) == 3


# Catch-up: ten ticks during which no gateway could decide.


def test_a_window_of_5_seconds_misses_what_is_older() -> None:
    simulation = Simulation(
        schedule(ScheduleSpec(every_sec=2), overlap=Overlap.ALLOW_ALL, catchup_window_sec=5)
    )
    simulation.look(2)
    simulation.look(22.5)
    assert simulation.times == [2, 18, 20, 22]
    assert simulation.decisions[1] == ("missed", 4, 7)
    assert simulation.record.decisions[1].reason == SkipReason.CATCHUP_WINDOW
    assert "within 5 s" in str(simulation.record.decisions[1].detail)
    assert simulation.decided_times(every=2) == [float(at) for at in range(2, 24, 2)]


def test_a_window_of_60_seconds_catches_up_with_all() -> None:
    simulation = Simulation(
        schedule(ScheduleSpec(every_sec=2), overlap=Overlap.ALLOW_ALL, catchup_window_sec=60)
    )
    simulation.look(2)
    simulation.look(22.5)
    assert simulation.times == [float(at) for at in range(2, 24, 2)]


def test_catching_up_under_skip_starts_the_oldest() -> None:
    simulation = Simulation(schedule(ScheduleSpec(every_sec=2), catchup_window_sec=60))
    simulation.look(22.5)
    assert simulation.times == [2]
    assert simulation.decisions == [("started", 2, 1), ("skipped", 4, 10)]


def test_an_occurrence_at_the_edge_of_the_window_starts() -> None:
    simulation = Simulation(schedule(catchup_window_sec=5))
    simulation.look(15)
    assert simulation.times == [10]


def test_a_year_of_seconds_is_one_decision() -> None:
    simulation = Simulation(
        schedule(ScheduleSpec(every_sec=1), overlap=Overlap.ALLOW_ALL, catchup_window_sec=0)
    )
    simulation.look(YEAR_SEC)
    assert simulation.decisions == [("missed", 1, YEAR_SEC - 1), ("started", YEAR_SEC, 1)]


def test_a_year_of_minutes_is_counted_up_to_a_limit() -> None:
    simulation = Simulation(schedule(ScheduleSpec(cron=["* * * * *"]), catchup_window_sec=60))
    simulation.look(YEAR_SEC)
    assert simulation.decisions[0] == ("missed", 60, 1000)
    assert simulation.record.decisions[0].at_least
    assert simulation.times == [YEAR_SEC - 60]


def test_many_occurrences_are_decided_in_steps() -> None:
    record = schedule(ScheduleSpec(every_sec=1), overlap=Overlap.ALLOW_ALL, catchup_window_sec=3600)
    first = decide(record, now=NOON + 250, earlier_runs={})
    assert (len(first.record.starts), first.more) == (100, True)
    simulation = Simulation(record)
    simulation.look(250)
    assert simulation.times == [float(at) for at in range(1, 251)]


def test_the_window_counts_from_the_jittered_start() -> None:
    spec = ScheduleSpec(cron=["0 * * * *"], jitter_sec=1800)
    simulation = Simulation(schedule(spec, catchup_window_sec=5, overlap=Overlap.ALLOW_ALL))
    due = next_due_at(simulation.record)
    assert due is not None
    assert 3600 < due - NOON < 5400
    simulation.look(due - NOON - 0.1)
    assert simulation.times == []
    simulation.look(due - NOON + 4)
    assert simulation.times == [3600]
    assert simulation.decisions == [("started", 3600, 1)]


# People


def test_a_pause_over_ten_ticks_starts_nothing_for_them() -> None:
    simulation = Simulation(schedule(overlap=Overlap.ALLOW_ALL))
    simulation.look(10)
    simulation.record = paused(simulation.record, note="maintenance", now=NOON + 12)
    assert next_due_at(simulation.record) is None
    simulation.run_until(115)
    simulation.record = resumed(simulation.record, now=NOON + 115)
    simulation.look(115)
    simulation.look(120)
    assert simulation.times == [10, 120]
    assert simulation.decisions == [("started", 10, 1), ("skipped", 20, 10), ("started", 120, 1)]
    assert simulation.record.decisions[1].reason == SkipReason.PAUSED
    assert (simulation.record.paused, simulation.record.note, simulation.record.revision) == (False, "", 3)


def test_a_pause_drops_what_is_buffered() -> None:
    simulation = Simulation(schedule(overlap=Overlap.BUFFER_ALL))
    simulation.run_until(35)
    assert len(simulation.record.buffer) == 2
    simulation.record = paused(simulation.record, note="", now=NOON + 36)
    simulation.end_all()
    simulation.look(40)
    assert simulation.times == [10]
    assert simulation.decisions == [("started", 10, 1), ("skipped", 20, 2)]


def test_a_buffered_start_is_dropped_apart_from_what_was_skipped_later() -> None:
    """What no gateway has decided yet is skipped first, then the buffered start, which is older."""
    simulation = Simulation(schedule(overlap=Overlap.BUFFER_ONE))
    simulation.run_until(20)
    assert simulation.decisions == [("started", 10, 1), ("buffered", 20, 1)]
    simulation.record = paused(simulation.record, note="", now=NOON + 35)
    simulation.record = resumed(simulation.record, now=NOON + 55)
    assert simulation.decisions == [
        ("started", 10, 1),
        ("skipped", 30, 1),
        ("skipped", 20, 1),
        ("skipped", 40, 2),
    ]


def test_pausing_twice_changes_the_note_only() -> None:
    once = paused(schedule(), note="a", now=NOON + 5)
    twice = paused(once, note="b", now=NOON + 50)
    assert (twice.note, twice.paused_at, twice.cursor) == ("b", NOON + 5, NOON + 5)


def test_editing_the_times_replays_nothing() -> None:
    simulation = Simulation(schedule(overlap=Overlap.ALLOW_ALL, catchup_window_sec=3600))
    simulation.look(10)
    changed = structs.replace(simulation.record, spec=ScheduleSpec(every_sec=15))
    simulation.record = edited(simulation.record, changed, now=NOON + 35)
    simulation.look(36)
    assert simulation.times == [10]
    assert simulation.decisions == [("started", 10, 1), ("skipped", 20, 2)]
    assert simulation.last.reason == SkipReason.EDITED
    simulation.look(45)
    assert simulation.times == [10, 45]


def test_editing_anything_else_decides_nothing() -> None:
    simulation = Simulation(schedule(overlap=Overlap.ALLOW_ALL))
    simulation.look(10)
    simulation.record = edited(
        simulation.record, structs.replace(simulation.record, params={"x": 1}), now=NOON + 25
    )
    simulation.look(25)
    assert simulation.times == [10, 20]
    assert simulation.record.revision == 2


def test_an_edit_can_pause_and_resume() -> None:
    simulation = Simulation(schedule(overlap=Overlap.ALLOW_ALL))
    simulation.record = edited(
        simulation.record, structs.replace(simulation.record, paused=True, note="x"), now=NOON + 5
    )
    assert (simulation.record.paused, simulation.record.paused_at, simulation.record.note) == (
        True,
        NOON + 5,
        "x",
    )
    changed = structs.replace(simulation.record, paused=False, spec=ScheduleSpec(every_sec=20))
    simulation.record = edited(simulation.record, changed, now=NOON + 45)
    simulation.look(60)
    assert simulation.times == [60]
    assert simulation.decisions == [("skipped", 10, 4), ("started", 60, 1)]
    assert simulation.record.decisions[0].reason == SkipReason.PAUSED


def test_the_definition_does_not_change_while_a_run_is_being_started() -> None:
    record = decide(schedule(), now=NOON + 10, earlier_runs={}).record
    with pytest.raises(ScheduleConflict):
        edited(record, structs.replace(record, params={"x": 1}), now=NOON + 11)
    assert edited(record, structs.replace(record, note="ok"), now=NOON + 11).starts == record.starts


def test_remaining_runs_end_the_schedule() -> None:
    simulation = Simulation(schedule(overlap=Overlap.ALLOW_ALL, remaining_runs=2))
    simulation.run_until(60)
    assert simulation.times == [10, 20]
    assert simulation.record.remaining_runs == 0
    assert next_due_at(simulation.record) is None
    simulation.record = edited(
        simulation.record, structs.replace(simulation.record, remaining_runs=1), now=NOON + 65
    )
    simulation.run_until(75)
    assert simulation.times == [10, 20, 70]


def test_a_buffered_start_without_remaining_runs_is_skipped() -> None:
    simulation = Simulation(schedule(overlap=Overlap.BUFFER_ALL, remaining_runs=2))
    for at in (10, 20, 30):
        simulation.look(at)
    simulation.end_all()
    simulation.look(31)
    simulation.end_all()
    simulation.look(32)
    assert simulation.times == [10, 20]
    assert simulation.decisions[-1] == ("skipped", 30, 1)
    assert simulation.last.reason == SkipReason.REMAINING_RUNS


def test_a_failed_run_pauses_the_schedule() -> None:
    simulation = Simulation(schedule(pause_on_failure=True))
    simulation.look(10)
    (first,) = simulation.started
    assert waits_for_runs(simulation.record)
    simulation.end(first, failed=True)
    simulation.look(13)
    assert simulation.record.paused
    assert first in simulation.record.note
    simulation.run_until(50)
    assert simulation.times == [10]


def test_a_cancelled_run_pauses_nothing() -> None:
    simulation = Simulation(schedule(pause_on_failure=True))
    simulation.look(10)
    simulation.end_all()
    simulation.look(20)
    assert not simulation.record.paused
    assert simulation.times == [10, 20]


def test_a_start_that_fails_has_a_reason_and_blocks_nothing() -> None:
    record = decide(schedule(remaining_runs=5), now=NOON + 10, earlier_runs={}).record
    run_id = record.starts[0].run_id
    failed = start_failed(record, run_id, "the flow.yaml is too large", now=NOON + 10.1)
    assert (failed.starts, failed.running) == ([], [])
    assert failed.decisions[-1].outcome is DecisionOutcome.FAILED
    assert failed.decisions[-1].detail == "the flow.yaml is too large"
    assert failed.counts == {"started": 0, "failed": 1}
    again = decide(failed, now=NOON + 20, earlier_runs={}).record
    assert [start.scheduled_for for start in again.starts] == [NOON + 20]


def test_a_start_that_fails_pauses_a_schedule_that_pauses_on_failure() -> None:
    record = decide(schedule(pause_on_failure=True), now=NOON + 10, earlier_runs={}).record
    assert start_failed(record, record.starts[0].run_id, "no", now=NOON + 11).paused


def test_the_counted_outcomes_of_a_start_that_fails_never_decrease() -> None:
    before = schedule()
    record = decide(before, now=NOON + 10, earlier_runs={}).record
    failed = start_failed(record, record.starts[0].run_id, "no", now=NOON + 10.1)
    writes = [outcomes_between(before, record), outcomes_between(record, failed)]
    assert [+each for each in writes] == [Counter(), Counter(failed=1)]
    assert all(count >= 0 for each in writes for count in each.values())


def test_each_outcome_is_counted_by_the_write_that_has_it() -> None:
    """The run of 10 is open: 20 waits, and 30 finds the buffer full."""
    simulation = Simulation(schedule(overlap=Overlap.BUFFER_ONE))
    before = simulation.record
    first = decide(before, now=NOON + 10, earlier_runs={}).record
    assert not +outcomes_between(before, first)
    simulation.store(first)
    assert +outcomes_between(first, simulation.record) == Counter(started=1)
    before = simulation.record
    simulation.look(30)
    assert +outcomes_between(before, simulation.record) == Counter(buffered=1, skipped=1)
    simulation.end_all()
    before = simulation.record
    started = decide(before, now=NOON + 39, earlier_runs=simulation.earlier_runs).record
    simulation.store(started)
    assert +outcomes_between(started, simulation.record) == Counter(started=1)
    late = decide(simulation.record, now=NOON + DAY_SEC, earlier_runs=simulation.earlier_runs).record
    assert outcomes_between(simulation.record, late)[DecisionOutcome.MISSED] > 0


def test_a_stored_start_is_dropped() -> None:
    record = decide(schedule(overlap=Overlap.ALLOW_ALL), now=NOON + 20, earlier_runs={}).record
    first, second = record.starts
    assert without_starts(record, {first.run_id}).starts == [second]


def test_a_decided_record_can_be_stored() -> None:
    simulation = Simulation(schedule(overlap=Overlap.BUFFER_ALL, pause_on_failure=True, remaining_runs=9))
    simulation.run_until(95, takes=15)
    assert decode_schedule(encode_schedule(simulation.record)) == simulation.record


def test_starts_are_in_the_order_of_their_times() -> None:
    simulation = Simulation(schedule(overlap=Overlap.BUFFER_ALL))
    simulation.run_until(300, takes=13)
    assert len(simulation.times) > 15
    assert all(before < after for before, after in pairwise(simulation.times))
    assert all(decision.by is StartedBy.SCHEDULE for decision in simulation.record.decisions)


def test_a_long_search_goes_on_later_and_ends_no_schedule() -> None:
    spec = ScheduleSpec(every_sec=60, end_at=NOON + 20 * YEAR_SEC, exclude=["0-29 * * * *", "30-59 * * * *"])
    simulation = Simulation(schedule(spec=spec, overlap=Overlap.ALLOW_ALL))
    row = row_of(simulation.record, 1)
    assert row.next_at is None
    assert row.searched_until is not None
    assert row.searched_until > NOON + DAY_SEC
    simulation.look(row.searched_until - NOON + 1)
    assert simulation.record.cursor >= row.searched_until
    following = row_of(simulation.record, 2).searched_until
    assert following is not None
    assert following > row.searched_until
    assert simulation.decisions == []


def test_missed_occurrences_end_with_the_last_of_them() -> None:
    simulation = Simulation(schedule(catchup_window_sec=5, overlap=Overlap.ALLOW_ALL))
    simulation.look(48)
    [missed] = [found for found in simulation.record.decisions if found.outcome is DecisionOutcome.MISSED]
    assert (missed.count, missed.until) == (4, NOON + 40)
