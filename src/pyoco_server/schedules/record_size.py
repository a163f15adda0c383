"""The size of a schedule's record, which NATS limits: what a trigger may add, and what a full one drops."""

from typing import Final

from msgspec import structs

from pyoco_server.errors import ScheduleFull
from pyoco_server.records.runs.run_models import encode
from pyoco_server.records.schedules.schedule_models import (
    DecisionOutcome,
    ScheduleDecision,
    ScheduledStart,
    ScheduleRecord,
    SkipReason,
    StartedBy,
    encode_schedule,
)

# The decisions of a record that is too large, and room for the next ones.
_FEW_DECISIONS: Final = 5
_ROOM_BYTES: Final = 8_192


def check_room(record: ScheduleRecord, *, most_bytes: int) -> None:
    """ScheduleFull if what is to be started takes more than half of what the rest of the record leaves."""
    other_bytes = len(encode_schedule(structs.replace(record, starts=[], buffer=[])))
    held = sum(len(encode(start)) for start in (*record.starts, *record.buffer))
    room = max(0, most_bytes - other_bytes) // 2
    if held > room:
        raise ScheduleFull(
            f"the runs that wait would take {held} bytes with their params, and NATS has room for {room}; "
            "wait until an earlier run has ended, or pass a reference to large data"
        )


def fitted(record: ScheduleRecord, *, most_bytes: int, now: float) -> ScheduleRecord:
    """The record, without older decisions and the newest buffered starts if it would be too large."""
    if len(encode_schedule(record)) <= most_bytes:
        return record
    kept = list(record.buffer)
    dropped: list[ScheduledStart] = []
    size = len(encode_schedule(structs.replace(record, decisions=record.decisions[-_FEW_DECISIONS:])))
    while kept and size > most_bytes - _ROOM_BYTES:
        dropped.append(kept.pop())
        size -= len(encode(dropped[-1])) + 1
    return _without(record, kept, dropped[::-1], now)


def _without(
    record: ScheduleRecord, kept: list[ScheduledStart], dropped: list[ScheduledStart], now: float
) -> ScheduleRecord:
    dropped_ids = {start.run_id for start in dropped}
    decisions = [each for each in record.decisions[-_FEW_DECISIONS:] if each.run_id not in dropped_ids]
    counts = dict(record.counts)
    if dropped:
        counts[DecisionOutcome.SKIPPED] = counts.get(DecisionOutcome.SKIPPED, 0) + len(dropped)
        decisions.append(
            ScheduleDecision(
                at=now,
                outcome=DecisionOutcome.SKIPPED,
                scheduled_for=dropped[0].scheduled_for,
                until=dropped[-1].scheduled_for if len(dropped) > 1 else None,
                count=len(dropped),
                by=dropped[0].by,
                dropped_run_id=_id_of_trigger(dropped),
                reason=SkipReason.BUFFER_FULL,
                detail="the record of the schedule would be larger than NATS accepts",
            )
        )
    return structs.replace(record, buffer=kept, decisions=decisions, counts=counts)


def _id_of_trigger(dropped: list[ScheduledStart]) -> str | None:
    """Of a single one: a record that is too large has no room for all ids."""
    return dropped[0].run_id if len(dropped) == 1 and dropped[0].by is StartedBy.TRIGGER else None
