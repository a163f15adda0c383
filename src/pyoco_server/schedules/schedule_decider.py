"""The overlap policy of a schedule: an occurrence is started, buffered, skipped or missed.

Builds the next record of the schedule. Overlapping runs of a hook or a template: triggers/overlap_slots.py.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from pyoco_server.records.runs.causes import CauseKind
from pyoco_server.records.schedules.schedule_models import (
    MAX_DECISIONS,
    Backfill,
    DecisionOutcome,
    Overlap,
    ScheduleDecision,
    ScheduledStart,
    ScheduleRecord,
    SkipReason,
    StartedBy,
    StartedRun,
)
from pyoco_server.runs.lifecycle.durable_start import run_id_for
from pyoco_server.schedules.calendar_times import (
    OccurrenceCount,
    SearchLimit,
    count_between,
    due_at,
    just_before,
    occurrences,
)
from pyoco_server.schedules.spec_problems import MAX_OCCURRENCES

# Occurrences that one write decides, and starts that it holds.
MAX_PER_STEP: Final = 100
MAX_BUFFERED: Final = 500
# Of the runs that are perhaps open, the newest are known.
_MAX_RUNNING: Final = 100
# Occurrences that are passed over are counted up to here.
_MAX_COUNTED: Final = 1_000
# Outcomes with a decision for each occurrence; others are merged with an equal one before them.
_NEVER_MERGED: Final = (DecisionOutcome.STARTED, DecisionOutcome.BUFFERED, DecisionOutcome.FAILED)


_WORDS: Final = {
    SkipReason.REPLACED: "a later start replaced it before the earlier run had ended",
    SkipReason.PAUSED: "the schedule was paused",
    SkipReason.EDITED: "the times of the schedule were changed",
    SkipReason.REMAINING_RUNS: "the schedule had no remaining runs",
    SkipReason.CATCHUP_WINDOW: "no gateway could start it within {window_sec:g} s",
    SkipReason.BACKFILL_CANCELLED: "the backfill was cancelled",
}


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """An earlier run as the leader has it. A run that is missing in the mapping counts as open."""

    is_open: bool
    failed: bool = False
    # Whether it was cancelled, and without a grace period.
    cancelling: bool = False
    forced: bool = False
    status: str = ""


EarlierRuns = Mapping[str, EarlierRun]


@dataclass(frozen=True, slots=True)
class DecisionStep:
    """What one write decides."""

    record: ScheduleRecord
    # Open runs that are to end, so that the next one can start.
    runs_to_cancel: tuple[str, ...] = ()
    terminate: bool = False
    # Whether there is more to decide at once.
    more: bool = False


def occurrence_run_id(record: ScheduleRecord, occurrence: str) -> str:
    return run_id_for(CauseKind.SCHEDULE, record.key, record.incarnation, occurrence)


class ScheduleDecider:
    """Decides the occurrences of a schedule, and makes its next record of that."""

    def __init__(self, record: ScheduleRecord, now: float, earlier_runs: EarlierRuns) -> None:
        self._record = record
        self._now = now
        self._earlier_runs = earlier_runs
        self._starts = list(record.starts)
        self._buffer = list(record.buffer)
        self._backfills = list(record.backfills)
        self._running = list(record.running)
        self._decisions = list(record.decisions)
        self._counts = dict(record.counts)
        self._cursor = record.cursor
        self._remaining = record.remaining_runs
        self._paused, self._paused_at, self._pause_note = record.paused, record.paused_at, record.note
        self._decided_in_step = 0

    def finish(self, *, more: bool = False) -> DecisionStep:
        record = structs.replace(
            self._record,
            cursor=self._cursor,
            starts=self._starts,
            buffer=self._buffer,
            backfills=self._backfills,
            running=self._running[-_MAX_RUNNING:],
            decisions=self._decisions[-MAX_DECISIONS:],
            counts=self._counts,
            remaining_runs=self._remaining,
            paused=self._paused,
            paused_at=self._paused_at,
            note=self._pause_note,
        )
        if not self._buffer or not self._buffer[0].overlap.ends_others:
            return DecisionStep(record, more=more)
        terminate = self._buffer[0].overlap is Overlap.TERMINATE_OTHER
        return DecisionStep(record, runs_to_cancel=tuple(self._open_stored()), terminate=terminate, more=more)

    # Earlier runs

    def drop_ended(self) -> None:
        ended = [run for run in self._running if not self._is_open(run.run_id)]
        self._running = [run for run in self._running if self._is_open(run.run_id)]
        failed = [run for run in ended if self._earlier_runs[run.run_id].failed]
        if failed and self._record.pause_on_failure and not self._paused:
            self.pause(f"paused because run {failed[-1].run_id} failed")

    def _is_open(self, run_id: str) -> bool:
        if any(start.run_id == run_id for start in self._starts):
            return True
        earlier = self._earlier_runs.get(run_id)
        return earlier is None or earlier.is_open

    def _open_stored(self) -> Iterator[str]:
        unstored = {start.run_id for start in self._starts}
        return (run.run_id for run in self._running if run.run_id not in unstored)

    # Occurrences

    def take_due(self) -> bool:
        """Decide the occurrences that are due; whether there may be more."""
        if self._paused or self._remaining == 0:
            return False
        spec = self._record.spec
        oldest = self._now - self._record.window_sec
        # Of these, even one with the largest jitter is too late.
        self.pass_over(
            just_before(oldest - spec.jitter_sec), DecisionOutcome.MISSED, SkipReason.CATCHUP_WINDOW
        )
        try:
            return self._take_due(oldest)
        except SearchLimit as limit:
            # Nothing more is due before `limit.reached`; the next call searches from there.
            if limit.reached > self._now:
                return False
            self._cursor = max(self._cursor, limit.reached)
            return True

    def _take_due(self, oldest: float) -> bool:
        spec, key = self._record.spec, self._record.key
        for nominal in occurrences(spec, after=self._cursor):
            due = due_at(key, spec, nominal)
            if due > self._now or self._remaining == 0:
                return False
            if self._is_full():
                return True
            self._cursor = nominal
            if due < oldest:
                one = OccurrenceCount(1, first=nominal, last=nominal)
                self._note_passed(DecisionOutcome.MISSED, SkipReason.CATCHUP_WINDOW, one, nominal)
            else:
                self.place(self._start_of(nominal, StartedBy.SCHEDULE, self._record.overlap))
        return False

    def pass_over(self, until: float, outcome: DecisionOutcome, reason: SkipReason) -> None:
        """Decide all occurrences up to `until` at once, without starting them."""
        if until <= self._cursor:
            return
        counted = count_between(self._record.spec, self._cursor, until, limit=_MAX_COUNTED)
        if counted.first is not None:
            self._cursor = until
            self._note_passed(outcome, reason, counted, until)

    def continue_backfills(self) -> bool:
        """Decide the occurrences of the backfills, in their order; whether there may be more."""
        for number, backfill in enumerate(self._backfills):
            try:
                if (more := self._continue_backfill(number)) is not None:
                    return more
            except SearchLimit as limit:
                self._move_backfill(number, limit.reached)
                if limit.reached < backfill.to_at:
                    return True
        return False

    def drop_done_backfills(self) -> None:
        """One whose starts wait in the buffer is in progress, and can be cancelled."""
        waiting = {start.backfill_id for start in self._buffer}
        self._backfills = [
            each for each in self._backfills if each.cursor < each.to_at or each.backfill_id in waiting
        ]

    def cancel_backfill(self, backfill: Backfill) -> int:
        """Skip what it has not started; how many occurrences these are."""
        before = self._counts.get(DecisionOutcome.SKIPPED, 0)
        reason = SkipReason.BACKFILL_CANCELLED
        self._drop_buffered(reason, lambda each: each.backfill_id == backfill.backfill_id)
        counted = undecided_of(self._record, backfill)
        if counted.count:
            end = just_before(backfill.to_at)
            self._note_passed(DecisionOutcome.SKIPPED, reason, counted, end, backfill.backfill_id)
        self._backfills = [each for each in self._backfills if each.backfill_id != backfill.backfill_id]
        return self._counts.get(DecisionOutcome.SKIPPED, 0) - before

    def _continue_backfill(self, number: int) -> bool | None:
        """None: all of its occurrences are decided."""
        backfill = self._backfills[number]
        if backfill.cursor >= backfill.to_at:
            return None
        for nominal in occurrences(self._record.spec, after=backfill.cursor):
            if nominal >= backfill.to_at:
                break
            if self._is_full():
                return True
            # Not in the buffer, which is smaller than a backfill may be.
            if backfill.overlap is Overlap.BUFFER_ALL and (self._running or self._buffer):
                return False
            self._move_backfill(number, nominal)
            self.place(self._start_of(nominal, StartedBy.BACKFILL, backfill.overlap, backfill.backfill_id))
        self._move_backfill(number, backfill.to_at)
        return None

    def _move_backfill(self, number: int, cursor: float) -> None:
        self._backfills[number] = structs.replace(self._backfills[number], cursor=cursor)

    def _start_of(
        self, nominal: float, by: StartedBy, overlap: Overlap, backfill_id: str | None = None
    ) -> ScheduledStart:
        occurrence = f"{nominal:.3f}" if backfill_id is None else f"backfill:{backfill_id}:{nominal:.3f}"
        return ScheduledStart(
            run_id=occurrence_run_id(self._record, occurrence),
            scheduled_for=nominal,
            decided_at=self._now,
            by=by,
            backfill_id=backfill_id,
            overlap=overlap,
        )

    def _is_full(self) -> bool:
        return len(self._starts) >= MAX_PER_STEP or self._decided_in_step >= MAX_PER_STEP

    # Starts

    def skip_reason_of(self, start: ScheduledStart) -> SkipReason | None:
        """Why the overlap policy skips it; None if it starts now or later."""
        policy = start.overlap
        if policy is Overlap.ALLOW_ALL or policy.ends_others or not (self._running or self._buffer):
            return None
        if policy is Overlap.SKIP:
            return SkipReason.OVERLAP
        most = 1 if policy is Overlap.BUFFER_ONE else MAX_BUFFERED
        return SkipReason.BUFFER_FULL if len(self._buffer) >= most else None

    def place(self, start: ScheduledStart) -> None:
        """Start, buffer or skip it, by its overlap policy."""
        self._decided_in_step += 1
        reason = self.skip_reason_of(start)
        if reason is not None:
            self._skip(start, reason)
        elif start.overlap is Overlap.ALLOW_ALL or not (self._running or self._buffer):
            self._start(start)
        else:
            if start.overlap.ends_others:
                # Whatever their policy: behind one that waits for the open run, this one could not end it.
                self._drop_buffered(SkipReason.REPLACED, lambda _: True)
            self._buffer.append(start)
            self._record_decision(start, DecisionOutcome.BUFFERED, run_id=start.run_id)

    def start_buffered(self) -> None:
        while self._buffer and not self._is_full():
            if self._running and self._buffer[0].overlap is not Overlap.ALLOW_ALL:
                return
            start = self._buffer.pop(0)
            if start.by is StartedBy.SCHEDULE and self._remaining == 0:
                self._skip(start, SkipReason.REMAINING_RUNS)
            else:
                self._start(start)

    def pause(self, note: str) -> None:
        self._paused, self._paused_at, self._pause_note = True, self._now, note
        self._drop_buffered(SkipReason.PAUSED, lambda each: each.by is StartedBy.SCHEDULE)

    def fail(self, run_id: str, detail: str) -> None:
        failed = [start for start in self._starts if start.run_id == run_id]
        self._starts = [start for start in self._starts if start.run_id != run_id]
        self._running = [run for run in self._running if run.run_id != run_id]
        for start in failed:
            self._forget(start)
            self._count_started(start, -1)
            self._record_decision(
                start, DecisionOutcome.FAILED, run_id=run_id, reason=SkipReason.START_FAILED, detail=detail
            )
            self._count(DecisionOutcome.FAILED, 1)
        if failed and self._record.pause_on_failure and not self._paused:
            self.pause(f"paused because run {run_id} could not be started")

    def described(self, reason: SkipReason) -> str:
        """The reason in words."""
        if reason is SkipReason.OVERLAP:
            return self._open_run_text()
        if reason is SkipReason.BUFFER_FULL:
            return f"{len(self._buffer)} are waiting, and {self._open_run_text()}"
        return _WORDS[reason].format(window_sec=self._record.window_sec)

    def _open_run_text(self) -> str:
        if not self._running:
            return "an earlier run is about to start"
        run_id = self._running[0].run_id
        earlier = self._earlier_runs.get(run_id)
        return f"run {run_id} is {earlier.status if earlier is not None and earlier.status else 'open'}"

    def _start(self, start: ScheduledStart) -> None:
        # One that was buffered starts now.
        self._starts.append(structs.replace(start, decided_at=self._now))
        self._running.append(StartedRun(run_id=start.run_id, scheduled_for=start.scheduled_for))
        self._forget(start)
        self._record_decision(start, DecisionOutcome.STARTED, run_id=start.run_id)
        self._count_started(start, 1)
        if start.by is StartedBy.SCHEDULE and self._remaining is not None:
            self._remaining -= 1

    def _skip(self, start: ScheduledStart, reason: SkipReason) -> None:
        self._forget(start)
        blocking = self._running[0].run_id if reason is SkipReason.OVERLAP and self._running else None
        self._record_decision(
            start,
            DecisionOutcome.SKIPPED,
            run_id=blocking,
            # A trigger is only skipped after it was buffered: else its request is refused.
            dropped_run_id=start.run_id if start.by is StartedBy.TRIGGER else None,
            reason=reason,
            detail=self.described(reason),
        )
        self._count(DecisionOutcome.SKIPPED, 1)

    def _drop_buffered(self, reason: SkipReason, which: Callable[[ScheduledStart], bool]) -> None:
        dropped = [start for start in self._buffer if which(start)]
        self._buffer = [start for start in self._buffer if not which(start)]
        for start in dropped:
            self._skip(start, reason)

    # Decisions

    def _note_passed(
        self,
        outcome: DecisionOutcome,
        reason: SkipReason,
        counted: OccurrenceCount,
        until: float,
        backfill_id: str | None = None,
    ) -> None:
        self._add(
            ScheduleDecision(
                at=self._now,
                outcome=outcome,
                scheduled_for=counted.first or until,
                until=(counted.last or until) if counted.count > 1 else None,
                count=counted.count,
                at_least=counted.at_least,
                by=StartedBy.SCHEDULE if backfill_id is None else StartedBy.BACKFILL,
                backfill_id=backfill_id,
                reason=reason,
                detail=self.described(reason),
            )
        )
        self._count(outcome, counted.count)

    def _record_decision(
        self,
        start: ScheduledStart,
        outcome: DecisionOutcome,
        *,
        run_id: str | None,
        dropped_run_id: str | None = None,
        reason: SkipReason | None = None,
        detail: str | None = None,
    ) -> None:
        self._add(
            ScheduleDecision(
                at=self._now,
                outcome=outcome,
                scheduled_for=start.scheduled_for,
                by=start.by,
                backfill_id=start.backfill_id,
                run_id=run_id,
                dropped_run_id=dropped_run_id,
                reason=reason,
                detail=detail,
            )
        )

    def _add(self, decision: ScheduleDecision) -> None:
        """Equal ones about occurrences in a row become one."""
        last = self._decisions[-1] if self._decisions else None
        is_equal = (
            last is not None
            and _merge_key(last) == _merge_key(decision)
            and decision.outcome not in _NEVER_MERGED
        )
        if last is None or not is_equal or not self._is_next(decision):
            self._decisions.append(decision)
            return
        self._decisions[-1] = structs.replace(
            decision,
            scheduled_for=last.scheduled_for,
            until=decision.until or decision.scheduled_for,
            count=last.count + decision.count,
            at_least=last.at_least or decision.at_least,
        )

    def _is_next(self, decision: ScheduleDecision) -> bool:
        """Whether it is about the occurrence after that of the last decision.

        One that is dropped from the buffer is earlier than those that were decided meanwhile.
        """
        ends = [
            each.until or each.scheduled_for
            for each in self._decisions
            if (each.by, each.backfill_id) == (decision.by, decision.backfill_id)
        ]
        return decision.scheduled_for > max(ends) == ends[-1]

    def _forget(self, start: ScheduledStart) -> None:
        """An earlier decision about this start is replaced."""
        self._decisions = [
            each
            for each in self._decisions
            if each.run_id != start.run_id
            or each.outcome not in (DecisionOutcome.STARTED, DecisionOutcome.BUFFERED)
        ]

    def _count_started(self, start: ScheduledStart, number: int) -> None:
        self._count(DecisionOutcome.STARTED, number)
        self._backfills = [
            structs.replace(each, started=max(0, each.started + number))
            if each.backfill_id == start.backfill_id
            else each
            for each in self._backfills
        ]

    def _count(self, outcome: DecisionOutcome, number: int) -> None:
        self._counts[outcome] = max(0, self._counts.get(outcome, 0) + number)


def _merge_key(decision: ScheduleDecision) -> tuple[object, ...]:
    ids = decision.backfill_id, decision.run_id, decision.dropped_run_id
    return decision.outcome, decision.by, decision.reason, *ids


def undecided_of(record: ScheduleRecord, backfill: Backfill) -> OccurrenceCount:
    """The occurrences of a backfill that are not decided yet."""
    end = just_before(backfill.to_at)
    return count_between(record.spec, backfill.cursor, end, limit=MAX_OCCURRENCES)
