"""Decisions about a schedule: from a record, the time and its earlier runs to the next record.

Pure functions. Whoever stores the record by compare-and-set has decided: the cursor, the starts, the buffer
and the reasons change together, so every occurrence is decided once.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from msgspec import structs

from pyoco_server.errors import (
    BackfillNotFound,
    FieldProblem,
    InvalidRequest,
    ScheduleBusy,
    ScheduleConflict,
    ScheduleFull,
    shortened,
)
from pyoco_server.records.schedules.schedule_models import (
    Backfill,
    DecisionOutcome,
    Overlap,
    ScheduledStart,
    ScheduleRecord,
    ScheduleSpec,
    SkipReason,
    StartedBy,
)
from pyoco_server.schedules.calendar_times import count_between, due_at, iso_in_zone, just_before, next_time
from pyoco_server.schedules.schedule_decider import (
    DecisionStep,
    EarlierRuns,
    ScheduleDecider,
    occurrence_run_id,
    undecided_of,
)
from pyoco_server.schedules.spec_problems import MAX_OCCURRENCES, exceeds

MAX_BACKFILLS: Final = 10


@dataclass(frozen=True, slots=True)
class PlacedTrigger:
    record: ScheduleRecord
    run_id: str


@dataclass(frozen=True, slots=True)
class CancelledBackfill:
    record: ScheduleRecord
    # How many runs it had started, and how many occurrences are skipped.
    started: int
    skipped: int


def runs_to_read(record: ScheduleRecord) -> list[str]:
    """The earlier runs that a decision depends on."""
    waits_for_end = record.buffer or record.backfills or record.overlap is not Overlap.ALLOW_ALL
    if not waits_for_end and not record.pause_on_failure:
        return []
    unstored = {start.run_id for start in record.starts}
    return [run.run_id for run in record.running if run.run_id not in unstored]


def decide(record: ScheduleRecord, *, now: float, earlier_runs: EarlierRuns) -> DecisionStep:
    """Decide what is due: occurrences, buffered starts and backfills."""
    decider = ScheduleDecider(record, now, earlier_runs)
    decider.drop_ended()
    decider.start_buffered()
    more = decider.take_due()
    more = decider.continue_backfills() or more
    decider.start_buffered()
    decider.drop_done_backfills()
    return decider.finish(more=more)


def next_due_at(record: ScheduleRecord) -> float | None:
    """When the next occurrence is due; None if there is none, or none that is to be decided.

    SearchLimit if it is not found.
    """
    if record.paused or record.remaining_runs == 0:
        return None
    following = next_time(record.spec, after=record.cursor)
    return None if following is None else due_at(record.key, record.spec, following)


def waits_for_runs(record: ScheduleRecord) -> bool:
    """Whether the end of an earlier run may be something to decide."""
    return bool(record.buffer or record.backfills or (record.pause_on_failure and record.running))


def without_starts(record: ScheduleRecord, run_ids: set[str]) -> ScheduleRecord:
    """The record without these starts: their runs are stored."""
    return structs.replace(record, starts=[each for each in record.starts if each.run_id not in run_ids])


def start_failed(record: ScheduleRecord, run_id: str, detail: str, *, now: float) -> ScheduleRecord:
    """The run of a decided start cannot be stored: the reason becomes the decision."""
    decider = ScheduleDecider(record, now, {})
    decider.fail(run_id, detail)
    return decider.finish().record


def outcomes_between(before: ScheduleRecord, after: ScheduleRecord) -> Counter[str]:
    """How many occurrences got which outcome by this write; none is taken back by a later one.

    A start counts when its run is stored, or as failed. One that was buffered counts again when it is started
    or skipped.
    """
    added = Counter(after.counts)
    added.subtract(before.counts)
    completed = _run_ids(before.starts) - _run_ids(after.starts)
    added[DecisionOutcome.STARTED] = len(completed) - added[DecisionOutcome.FAILED]
    added[DecisionOutcome.BUFFERED] = len(_run_ids(after.buffer) - _run_ids(before.buffer))
    return added


def edited(record: ScheduleRecord, changed: ScheduleRecord, *, now: float) -> ScheduleRecord:
    """`changed` is the record with the fields that a person has changed. The past is not replayed."""
    if record.starts and _definition(record) != _definition(changed):
        # A start that is ensured again has to have the same job.
        raise ScheduleConflict("a run of the schedule is being started; repeat the change")
    settled = record
    if changed.spec != record.spec:
        settled = _with_skipped(record, now, SkipReason.EDITED)
        settled = structs.replace(settled, backfills=_counted_again(settled, changed.spec))
    elif record.remaining_runs == 0 and changed.remaining_runs != 0:
        settled = _with_skipped(record, now, SkipReason.REMAINING_RUNS)
    if changed.paused and not record.paused:
        settled = _paused(settled, changed.note, now)
    elif record.paused and not changed.paused:
        settled = _resumed(settled, changed.note, now)
    return structs.replace(
        changed,
        revision=record.revision + 1,
        updated_at=now,
        paused_at=settled.paused_at,
        cursor=settled.cursor,
        starts=settled.starts,
        buffer=settled.buffer,
        backfills=settled.backfills,
        running=settled.running,
        decisions=settled.decisions,
        counts=settled.counts,
    )


def paused(record: ScheduleRecord, *, note: str, now: float) -> ScheduleRecord:
    """Nothing starts any more, except by a trigger or a backfill. A second pause changes the note."""
    done = structs.replace(record, note=note) if record.paused else _paused(record, note, now)
    return structs.replace(done, revision=record.revision + 1, updated_at=now)


def resumed(record: ScheduleRecord, *, note: str = "", now: float) -> ScheduleRecord:
    """From now on; what was due during the pause is not started."""
    if not record.paused:
        return record
    return structs.replace(_resumed(record, note, now), revision=record.revision + 1, updated_at=now)


def triggered(
    record: ScheduleRecord,
    *,
    now: float,
    trigger_id: str,
    earlier_runs: EarlierRuns,
    params: dict[str, Any] | None = None,
    overlap: Overlap | None = None,
) -> PlacedTrigger:
    """Start a run now; it uses up no occurrence.

    ScheduleBusy if an earlier run is open and the policy is to skip. With a policy that waits, the run
    starts when the earlier one has ended.
    """
    decider = ScheduleDecider(record, now, earlier_runs)
    decider.drop_ended()
    decider.start_buffered()
    start = ScheduledStart(
        run_id=occurrence_run_id(record, f"trigger:{trigger_id}"),
        scheduled_for=round(now, 3),
        decided_at=now,
        by=StartedBy.TRIGGER,
        overlap=overlap or record.overlap,
        params=params or {},
    )
    if (reason := decider.skip_reason_of(start)) is not None:
        raise ScheduleBusy(decider.described(reason))
    decider.place(start)
    return PlacedTrigger(decider.finish().record, start.run_id)


def backfill_count(record: ScheduleRecord, *, from_at: float, to_at: float) -> int:
    """How many occurrences are at or after `from_at` and before `to_at`; InvalidRequest if too many."""
    if to_at <= from_at:
        problem = FieldProblem("to", "expected a time after from", value=_shown(record, to_at))
        raise InvalidRequest(problems=[problem])
    start, end = just_before(from_at), just_before(to_at)
    if exceeds(record.spec, start, end):
        message = (
            f"a backfill starts at most {MAX_OCCURRENCES} runs, and this period has more, or exclusions "
            "that are too many to count them; shorten it"
        )
        raise InvalidRequest(problems=[FieldProblem("to", message, value=_shown(record, to_at))])
    return count_between(record.spec, start, end, limit=MAX_OCCURRENCES).count


def with_backfill(
    record: ScheduleRecord,
    *,
    now: float,
    backfill_id: str,
    from_at: float,
    to_at: float,
    overlap: Overlap | None = None,
    requested_by: str | None = None,
) -> ScheduleRecord:
    """Start the occurrences of a period, one after the other unless the overlap policy says otherwise."""
    if to_at > now:
        expected = "expected a time that is not in the future: the schedule starts those itself"
        raise InvalidRequest(problems=[FieldProblem("to", expected, value=_shown(record, to_at))])
    count = backfill_count(record, from_at=from_at, to_at=to_at)
    if len(record.backfills) >= MAX_BACKFILLS:
        raise ScheduleFull(
            f"{MAX_BACKFILLS} backfills are in progress; start this one when one of them has ended, or "
            "cancel one (DELETE /schedules/{schedule_id}/backfills/{backfill_id})"
        )
    added = Backfill(
        backfill_id=backfill_id,
        from_at=from_at,
        to_at=to_at,
        cursor=just_before(from_at),
        requested_at=now,
        requested_by=requested_by,
        overlap=overlap or Overlap.BUFFER_ALL,
        count=count,
    )
    return structs.replace(record, backfills=[*record.backfills, added])


def backfill_cancelled(record: ScheduleRecord, backfill_id: str, *, now: float) -> CancelledBackfill:
    """The runs that it has started stay; what it has not started gets a reason."""
    backfill = next((each for each in record.backfills if each.backfill_id == backfill_id), None)
    if backfill is None:
        raise BackfillNotFound(
            f"no backfill {shortened(backfill_id)} of schedule {record.schedule_id!r} is in progress"
        )
    decider = ScheduleDecider(record, now, {})
    skipped = decider.cancel_backfill(backfill)
    return CancelledBackfill(decider.finish().record, backfill.started, skipped)


def remaining_of(record: ScheduleRecord, backfill: Backfill) -> int:
    """How many occurrences a backfill has not started yet; MAX_OCCURRENCES: or more."""
    waiting = sum(start.backfill_id == backfill.backfill_id for start in record.buffer)
    return min(MAX_OCCURRENCES, undecided_of(record, backfill).count + waiting)


def _paused(record: ScheduleRecord, note: str, now: float) -> ScheduleRecord:
    decider = ScheduleDecider(_with_skipped(record, now, SkipReason.PAUSED), now, {})
    decider.pause(note)
    return decider.finish().record


def _resumed(record: ScheduleRecord, note: str, now: float) -> ScheduleRecord:
    passed = _with_skipped(record, now, SkipReason.PAUSED)
    return structs.replace(passed, paused=False, paused_at=None, note=note)


def _counted_again(record: ScheduleRecord, spec: ScheduleSpec) -> list[Backfill]:
    """The backfills, which go on with the times of a new spec; InvalidRequest if one gets too many."""
    changed = structs.replace(record, spec=spec)
    for each in record.backfills:
        if exceeds(spec, each.cursor, just_before(each.to_at)):
            message = (
                f"backfill {each.backfill_id} is in progress, and would start more than {MAX_OCCURRENCES} "
                "runs at the new times, or exclusions are too many to count them; cancel it first: "
                f"DELETE /schedules/{record.schedule_id}/backfills/{each.backfill_id}"
            )
            raise InvalidRequest(problems=[FieldProblem("spec", message)])
    return [
        structs.replace(each, count=each.started + remaining_of(changed, each)) for each in record.backfills
    ]


def _with_skipped(record: ScheduleRecord, now: float, reason: SkipReason) -> ScheduleRecord:
    """Skip what is not decided until now, as one decision."""
    decider = ScheduleDecider(record, now, {})
    decider.pass_over(now, DecisionOutcome.SKIPPED, SkipReason.PAUSED if record.paused else reason)
    return structs.replace(decider.finish().record, cursor=max(record.cursor, now))


def _shown(record: ScheduleRecord, at: float) -> str:
    return iso_in_zone(at, record.spec.timezone)


def _run_ids(starts: list[ScheduledStart]) -> set[str]:
    return {start.run_id for start in starts}


def _definition(record: ScheduleRecord) -> tuple[object, ...]:
    """What the jobs of its runs consist of."""
    what = (record.flow_name, record.workflow_yaml, record.params, record.tag, record.tags)
    return (*what, record.timeout_sec, record.tenant_id, record.api_key_id)
