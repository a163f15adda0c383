"""The record of a schedule stays below what NATS accepts, and the schedule goes on."""

import pytest

from pyoco_server.errors import ScheduleBusy
from pyoco_server.records.schedules.schedule_models import (
    DecisionOutcome,
    ScheduledStart,
    ScheduleRecord,
    encode_schedule,
)
from pyoco_server.schedules.record_size import check_room, fitted
from tests.unit.schedules.simulation import NOON, schedule

MOST = 100_000


def waiting(number: int, size: int) -> ScheduleRecord:
    """A schedule with so many buffered starts, each with params of this size."""
    starts = [
        ScheduledStart(
            run_id=f"00000000-0000-4000-8000-{each:012}",
            scheduled_for=NOON + each,
            decided_at=NOON,
            params={"text": "x" * size},
        )
        for each in range(number)
    ]
    return schedule(buffer=starts)


def test_the_runs_that_wait_take_at_most_half_of_the_room() -> None:
    check_room(waiting(4, 10_000), most_bytes=MOST)
    with pytest.raises(ScheduleBusy, match="pass a reference to large data"):
        check_room(waiting(5, 10_000), most_bytes=MOST)


def test_a_record_that_fits_stays_as_it_is() -> None:
    record = waiting(5, 10_000)
    assert fitted(record, most_bytes=MOST, now=NOON) is record


def test_a_record_that_is_too_large_drops_the_newest_that_wait_with_a_reason() -> None:
    record = waiting(12, 10_000)
    smaller = fitted(record, most_bytes=MOST, now=NOON + 60)
    assert len(encode_schedule(smaller)) <= MOST
    kept = len(smaller.buffer)
    assert smaller.buffer == record.buffer[:kept]
    [decision] = smaller.decisions
    assert (decision.outcome, decision.reason, decision.count) == (
        DecisionOutcome.SKIPPED,
        "buffer_full",
        12 - kept,
    )
    assert (decision.scheduled_for, decision.until) == (NOON + kept, NOON + 11)
    assert smaller.counts == {"skipped": 12 - kept}
