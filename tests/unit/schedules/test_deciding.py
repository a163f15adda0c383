"""Decisions about occurrences: each has one run, or one reason."""

from itertools import pairwise

import pytest
from msgspec import structs

from pyoco_server.errors import ScheduleConflict
from pyoco_server.records.schedule_models import (
    MOST_DECISIONS,
    Outcome,
    Overlap,
    ScheduleSpec,
    SkipReason,
    StartedBy,
    decode_schedule,
    encode_schedule,
)
from pyoco_server.schedules.deciding import (
    asked_runs,
    decide,
    edited,
    next_look,
    paused,
    resumed,
    start_failed,
    stored,
    waits_for_runs,
)
from pyoco_server.schedules.schedule_draft import MOST_BUFFERED, RunFact
from tests.unit.schedules.simulation import NOON, Simulation, schedule

DAY_SEC = 86_400
YEAR_SEC = 365 * DAY_SEC


def test_an_occurrence_starts_when_it_is_due_and_once() -> None:
    each = Simulation(schedule(overlap=Overlap.ALLOW_ALL))
    each.look(9.999)
    assert each.times == []
    for at in (10, 10, 15, 20.5):
        each.look(at)
    assert each.times == [10, 20]
    assert each.decisions == [("started", 10, 1), ("started", 20, 1)]
    assert each.record.counts == {"started": 2}
    assert next_look(each.record) == NOON + 30


def test_two_gateways_decide_the_same_runs() -> None:
    record = schedule(overlap=Overlap.ALLOW_ALL)
    first = decide(record, now=NOON + 25, facts={}).record
    second = decide(record, now=NOON + 25.3, facts={}).record
    assert [start.run_id for start in first.starts] == [start.run_id for start in second.starts]


def test_the_runs_of_a_schedule_that_is_made_again_have_other_ids() -> None:
    ids = [
        decide(structs.replace(schedule(), **change), now=NOON + 10, facts={}).record.starts[0].run_id
        for change in ({}, {"incarnation": "i2"}, {"tenant_id": "acme"}, {"schedule_id": "daily"})
    ]
    assert len(set(ids)) == 4


def test_nothing_changes_while_nothing_is_due() -> None:
    each = Simulation(schedule(ScheduleSpec(cron=["0 2 * * *"])))
    before = encode_schedule(each.record)
    each.look(7200)
    assert encode_schedule(each.record) == before


def test_a_clock_that_goes_back_starts_nothing_twice() -> None:
    each = Simulation(schedule(overlap=Overlap.ALLOW_ALL))
    each.look(35)
    each.look(5)
    each.look(39)
    assert each.times == [10, 20, 30]


# Overlap: every 10 s, and runs that take 30 s.


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        # 20 and 30 are skipped, 40 starts when the run of 10 has ended.
        (Overlap.SKIP, [10, 40, 70]),
        # 20 waits for the run of 10 until 40, when it starts; 30 and 40 find the buffer full, or taken.
        (Overlap.BUFFER_ONE, [10, 20, 40]),
        (Overlap.BUFFER_ALL, [10, 20, 30]),
        (Overlap.ALLOW_ALL, [10, 20, 30, 40, 50, 60, 70]),
    ],
)
def test_overlap_with_a_run_of_30_seconds(overlap: Overlap, expected: list[float]) -> None:
    each = Simulation(schedule(overlap=overlap))
    each.run_until(75, takes=30)
    assert each.times == expected


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.BUFFER_ONE, Overlap.ALLOW_ALL])
def test_each_occurrence_has_one_decision(overlap: Overlap) -> None:
    each = Simulation(schedule(overlap=overlap))
    each.run_until(75, takes=30)
    each.end_all()
    each.look(76)
    buffered = [start.scheduled_for - NOON for start in each.record.buffer]
    assert sorted(each.decided_times() + buffered) == [10, 20, 30, 40, 50, 60, 70]


@pytest.mark.parametrize("overlap", [Overlap.CANCEL_OTHER, Overlap.TERMINATE_OTHER])
def test_the_next_run_starts_only_when_the_cancelled_one_has_ended(overlap: Overlap) -> None:
    each = Simulation(schedule(overlap=overlap))
    each.look(10)
    (first,) = each.started
    decided = each.look(20)
    assert (decided.to_end, decided.terminate) == ((first,), overlap is Overlap.TERMINATE_OTHER)
    assert each.times == [10]
    # It takes its time; meanwhile a later occurrence takes the place of the one that waits.
    assert each.look(31).to_end == (first,)
    assert each.times == [10]
    each.end(first)
    assert each.look(33).to_end == ()
    assert each.times == [10, 30]
    assert each.decisions == [("started", 10, 1), ("skipped", 20, 1), ("started", 30, 1)]
    assert each.record.decisions[1].reason == SkipReason.REPLACED


def test_a_skip_names_the_run_in_the_way_and_its_state() -> None:
    each = Simulation(schedule())
    each.look(10)
    (first,) = each.started
    each.facts[first] = RunFact(is_open=True, status="WAITING_HUMAN")
    each.look(20)
    assert (each.last.reason, each.last.run_id) == (SkipReason.OVERLAP, first)
    assert each.last.detail == f"run {first} is WAITING_HUMAN"


def test_equal_skips_in_a_row_are_one_decision() -> None:
    each = Simulation(schedule())
    each.run_until(500)
    assert each.decisions == [("started", 10, 1), ("skipped", 20, 49)]
    assert each.last.until == NOON + 500
    assert each.record.counts == {"started": 1, "skipped": 49}


def test_a_run_that_is_not_yet_stored_is_open() -> None:
    record = decide(schedule(), now=NOON + 10, facts={}).record
    again = decide(record, now=NOON + 20, facts={record.starts[0].run_id: RunFact(is_open=False)}).record
    assert [start.scheduled_for - NOON for start in again.starts] == [10]
    assert again.decisions[-1].reason == SkipReason.OVERLAP


def test_a_buffered_start_is_decided_when_it_starts() -> None:
    each = Simulation(schedule(overlap=Overlap.BUFFER_ALL))
    each.run_until(20)
    each.end_all()
    (start,) = decide(each.record, now=NOON + 27, facts=each.facts).record.starts
    assert (start.scheduled_for, start.decided_at) == (NOON + 20, NOON + 27)


def test_a_buffer_has_a_limit() -> None:
    each = Simulation(schedule(ScheduleSpec(every_sec=1), overlap=Overlap.BUFFER_ALL))
    each.run_until(MOST_BUFFERED + 10)
    assert len(each.record.buffer) == MOST_BUFFERED
    assert (each.last.reason, each.last.count) == (SkipReason.BUFFER_FULL, 9)


def test_only_the_last_decisions_are_kept() -> None:
    each = Simulation(schedule(overlap=Overlap.ALLOW_ALL))
    each.run_until(400)
    assert len(each.record.decisions) == MOST_DECISIONS
    assert each.last.scheduled_for == NOON + 400
    assert each.record.counts == {"started": 40}


def test_earlier_runs_are_asked_for_only_if_they_matter() -> None:
    each = Simulation(schedule(overlap=Overlap.ALLOW_ALL))
    each.run_until(30)
    assert asked_runs(each.record) == []
    assert len(asked_runs(structs.replace(each.record, overlap=Overlap.SKIP))) == 3
    assert len(asked_runs(structs.replace(each.record, pause_on_failure=True))) == 3


# Catch-up: ten ticks during which no gateway could decide.


def test_a_window_of_5_seconds_misses_what_is_older() -> None:
    each = Simulation(schedule(ScheduleSpec(every_sec=2), overlap=Overlap.ALLOW_ALL, catchup_window_sec=5))
    each.look(2)
    each.look(22.5)
    assert each.times == [2, 18, 20, 22]
    assert each.decisions[1] == ("missed", 4, 7)
    assert each.record.decisions[1].reason == SkipReason.CATCHUP_WINDOW
    assert "within 5 s" in str(each.record.decisions[1].detail)
    assert each.decided_times(every=2) == [float(at) for at in range(2, 24, 2)]


def test_a_window_of_60_seconds_catches_up_with_all() -> None:
    each = Simulation(schedule(ScheduleSpec(every_sec=2), overlap=Overlap.ALLOW_ALL, catchup_window_sec=60))
    each.look(2)
    each.look(22.5)
    assert each.times == [float(at) for at in range(2, 24, 2)]


def test_catching_up_under_skip_starts_the_oldest() -> None:
    each = Simulation(schedule(ScheduleSpec(every_sec=2), catchup_window_sec=60))
    each.look(22.5)
    assert each.times == [2]
    assert each.decisions == [("started", 2, 1), ("skipped", 4, 10)]


def test_an_occurrence_at_the_edge_of_the_window_starts() -> None:
    each = Simulation(schedule(catchup_window_sec=5))
    each.look(15)
    assert each.times == [10]


def test_a_year_of_seconds_is_one_decision() -> None:
    each = Simulation(schedule(ScheduleSpec(every_sec=1), overlap=Overlap.ALLOW_ALL, catchup_window_sec=0))
    each.look(YEAR_SEC)
    assert each.decisions == [("missed", 1, YEAR_SEC - 1), ("started", YEAR_SEC, 1)]


def test_a_year_of_minutes_is_counted_up_to_a_limit() -> None:
    each = Simulation(schedule(ScheduleSpec(cron=["* * * * *"]), catchup_window_sec=60))
    each.look(YEAR_SEC)
    assert each.decisions[0] == ("missed", 60, 1000)
    assert each.record.decisions[0].at_least
    assert each.times == [YEAR_SEC - 60]


def test_many_occurrences_are_decided_in_steps() -> None:
    record = schedule(ScheduleSpec(every_sec=1), overlap=Overlap.ALLOW_ALL, catchup_window_sec=3600)
    first = decide(record, now=NOON + 250, facts={})
    assert (len(first.record.starts), first.more) == (100, True)
    each = Simulation(record)
    each.look(250)
    assert each.times == [float(at) for at in range(1, 251)]


def test_the_window_counts_from_the_jittered_start() -> None:
    spec = ScheduleSpec(cron=["0 * * * *"], jitter_sec=1800)
    each = Simulation(schedule(spec, catchup_window_sec=5, overlap=Overlap.ALLOW_ALL))
    due = next_look(each.record)
    assert due is not None
    assert 3600 < due - NOON < 5400
    each.look(due - NOON - 0.1)
    assert each.times == []
    each.look(due - NOON + 4)
    assert each.times == [3600]
    assert each.decisions == [("started", 3600, 1)]


# People


def test_a_pause_over_ten_ticks_starts_nothing_for_them() -> None:
    each = Simulation(schedule(overlap=Overlap.ALLOW_ALL))
    each.look(10)
    each.record = paused(each.record, note="maintenance", now=NOON + 12)
    assert next_look(each.record) is None
    each.run_until(115)
    each.record = resumed(each.record, now=NOON + 115)
    each.look(115)
    each.look(120)
    assert each.times == [10, 120]
    assert each.decisions == [("started", 10, 1), ("skipped", 20, 10), ("started", 120, 1)]
    assert each.record.decisions[1].reason == SkipReason.PAUSED
    assert (each.record.paused, each.record.note, each.record.revision) == (False, "", 3)


def test_a_pause_drops_what_is_buffered() -> None:
    each = Simulation(schedule(overlap=Overlap.BUFFER_ALL))
    each.run_until(35)
    assert len(each.record.buffer) == 2
    each.record = paused(each.record, note="", now=NOON + 36)
    each.end_all()
    each.look(40)
    assert each.times == [10]
    assert each.decisions == [("started", 10, 1), ("skipped", 20, 2)]


def test_pausing_twice_changes_the_note_only() -> None:
    once = paused(schedule(), note="a", now=NOON + 5)
    twice = paused(once, note="b", now=NOON + 50)
    assert (twice.note, twice.paused_at, twice.cursor) == ("b", NOON + 5, NOON + 5)


def test_editing_the_times_replays_nothing() -> None:
    each = Simulation(schedule(overlap=Overlap.ALLOW_ALL, catchup_window_sec=3600))
    each.look(10)
    changed = structs.replace(each.record, spec=ScheduleSpec(every_sec=15))
    each.record = edited(each.record, changed, now=NOON + 35)
    each.look(36)
    assert each.times == [10]
    assert each.decisions == [("started", 10, 1), ("skipped", 20, 2)]
    assert each.last.reason == SkipReason.EDITED
    each.look(45)
    assert each.times == [10, 45]


def test_editing_anything_else_decides_nothing() -> None:
    each = Simulation(schedule(overlap=Overlap.ALLOW_ALL))
    each.look(10)
    each.record = edited(each.record, structs.replace(each.record, params={"x": 1}), now=NOON + 25)
    each.look(25)
    assert each.times == [10, 20]
    assert each.record.revision == 2


def test_an_edit_can_pause_and_resume() -> None:
    each = Simulation(schedule(overlap=Overlap.ALLOW_ALL))
    each.record = edited(each.record, structs.replace(each.record, paused=True, note="x"), now=NOON + 5)
    assert (each.record.paused, each.record.paused_at, each.record.note) == (True, NOON + 5, "x")
    changed = structs.replace(each.record, paused=False, spec=ScheduleSpec(every_sec=20))
    each.record = edited(each.record, changed, now=NOON + 45)
    each.look(60)
    assert each.times == [60]
    assert each.decisions == [("skipped", 10, 4), ("started", 60, 1)]
    assert each.record.decisions[0].reason == SkipReason.PAUSED


def test_the_definition_does_not_change_while_a_run_is_being_started() -> None:
    record = decide(schedule(), now=NOON + 10, facts={}).record
    with pytest.raises(ScheduleConflict):
        edited(record, structs.replace(record, params={"x": 1}), now=NOON + 11)
    assert edited(record, structs.replace(record, note="ok"), now=NOON + 11).starts == record.starts


def test_remaining_runs_end_the_schedule() -> None:
    each = Simulation(schedule(overlap=Overlap.ALLOW_ALL, remaining_runs=2))
    each.run_until(60)
    assert each.times == [10, 20]
    assert each.record.remaining_runs == 0
    assert next_look(each.record) is None
    each.record = edited(each.record, structs.replace(each.record, remaining_runs=1), now=NOON + 65)
    each.run_until(75)
    assert each.times == [10, 20, 70]


def test_a_buffered_start_without_remaining_runs_is_skipped() -> None:
    each = Simulation(schedule(overlap=Overlap.BUFFER_ALL, remaining_runs=2))
    for at in (10, 20, 30):
        each.look(at)
    each.end_all()
    each.look(31)
    each.end_all()
    each.look(32)
    assert each.times == [10, 20]
    assert each.decisions[-1] == ("skipped", 30, 1)
    assert each.last.reason == SkipReason.REMAINING_RUNS


def test_a_failed_run_pauses_the_schedule() -> None:
    each = Simulation(schedule(pause_on_failure=True))
    each.look(10)
    (first,) = each.started
    assert waits_for_runs(each.record)
    each.end(first, failed=True)
    each.look(13)
    assert each.record.paused
    assert first in each.record.note
    each.run_until(50)
    assert each.times == [10]


def test_a_cancelled_run_pauses_nothing() -> None:
    each = Simulation(schedule(pause_on_failure=True))
    each.look(10)
    each.end_all()
    each.look(20)
    assert not each.record.paused
    assert each.times == [10, 20]


def test_a_start_that_fails_has_a_reason_and_blocks_nothing() -> None:
    record = decide(schedule(remaining_runs=5), now=NOON + 10, facts={}).record
    run_id = record.starts[0].run_id
    failed = start_failed(record, run_id, "the flow.yaml is too large", now=NOON + 10.1)
    assert (failed.starts, failed.running) == ([], [])
    assert failed.decisions[-1].outcome is Outcome.FAILED
    assert failed.decisions[-1].detail == "the flow.yaml is too large"
    assert failed.counts == {"started": 0, "failed": 1}
    again = decide(failed, now=NOON + 20, facts={}).record
    assert [start.scheduled_for for start in again.starts] == [NOON + 20]


def test_a_start_that_fails_pauses_a_schedule_that_pauses_on_failure() -> None:
    record = decide(schedule(pause_on_failure=True), now=NOON + 10, facts={}).record
    assert start_failed(record, record.starts[0].run_id, "no", now=NOON + 11).paused


def test_a_stored_start_is_dropped() -> None:
    record = decide(schedule(overlap=Overlap.ALLOW_ALL), now=NOON + 20, facts={}).record
    first, second = record.starts
    assert stored(record, {first.run_id}).starts == [second]


def test_a_decided_record_can_be_stored() -> None:
    each = Simulation(schedule(overlap=Overlap.BUFFER_ALL, pause_on_failure=True, remaining_runs=9))
    each.run_until(95, takes=15)
    assert decode_schedule(encode_schedule(each.record)) == each.record


def test_starts_are_in_the_order_of_their_times() -> None:
    each = Simulation(schedule(overlap=Overlap.BUFFER_ALL))
    each.run_until(300, takes=13)
    assert len(each.times) > 15
    assert all(before < after for before, after in pairwise(each.times))
    assert all(decision.by is StartedBy.SCHEDULE for decision in each.record.decisions)


def test_a_long_search_goes_on_later_and_ends_no_schedule() -> None:
    spec = ScheduleSpec(every_sec=60, end_at=NOON + 20 * YEAR_SEC, exclude=["0-29 * * * *", "30-59 * * * *"])
    each = Simulation(schedule(spec=spec, overlap=Overlap.ALLOW_ALL))
    look = next_look(each.record)
    assert look is not None
    assert look > NOON + DAY_SEC
    each.look(look - NOON + 1)
    assert each.record.cursor >= look
    following = next_look(each.record)
    assert following is not None
    assert following > look
    assert each.decisions == []


def test_missed_occurrences_end_with_the_last_of_them() -> None:
    each = Simulation(schedule(catchup_window_sec=5, overlap=Overlap.ALLOW_ALL))
    each.look(48)
    [missed] = [found for found in each.record.decisions if found.outcome is Outcome.MISSED]
    assert (missed.count, missed.until) == (4, NOON + 40)
