"""Invariants of what starts runs by itself: schedules, workflow events and hooks."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import permutations
from typing import Final

from msgspec import UNSET

from pyoco_server.records.runs.causes import CauseKind
from pyoco_server.records.triggers.workflow_event_models import RetryStatus
from tests.simulation.invariants.evidence import Evidence, Invariant, Response, RetryWrite

# How late an occurrence of a schedule may be started after the last fault.
_LATE_SEC: Final = 5.0


def each_occurrence_starts_one_run(evidence: Evidence) -> Iterator[str]:
    """Of schedules whose runs may overlap, and were always in time."""
    if evidence.lost_writes:
        return
    started = Counter(
        run.cause.at
        for run in evidence.runs.values()
        if run.cause is not UNSET and run.cause.kind is CauseKind.SCHEDULE and run.cause.at is not None
    )
    for schedule in evidence.schedules:
        every_sec = schedule.spec.every_sec or 0.0
        due = (schedule.created_at // every_sec + 1) * every_sec
        while due < evidence.now - _LATE_SEC:
            if started[due] != 1:
                yield f"the occurrence {due:.0f} of schedule {schedule.schedule_id} has {started[due]} runs"
            due += every_sec


def an_event_starts_one_run(evidence: Evidence) -> Iterator[str]:
    """Of a workflow or for a hook, and also one that was not answered: the payload is its key."""
    if evidence.lost_writes:
        return
    started: dict[str, set[str]] = defaultdict(set)
    for write in evidence.run_writes:
        run = write.snapshot
        if run is not None and run.cause is not UNSET and run.cause.kind is CauseKind.EVENT:
            started[str(run.params.get("payload"))].add(write.run_id)
    for key, run_ids in started.items():
        if len(run_ids) > 1:
            yield f"event {key} has started {len(run_ids)} runs: {', '.join(sorted(run_ids))}"


def a_repeated_event_is_a_duplicate(evidence: Evidence) -> Iterator[str]:
    """Sent after the first was answered: it gets the same run, and is told so."""
    if evidence.lost_writes:
        return
    answered = [
        each for each in evidence.of_kind("workflow_event", "delivery") if each.response is Response.DONE
    ]
    for first, later in permutations(answered, 2):
        if first.key != later.key or later.began_at < first.ended_at:
            continue
        if not later.is_duplicate or later.run_id != first.run_id:
            told = "a duplicate" if later.is_duplicate else "new"
            yield f"event {later.key} has run {first.run_id}, and is answered as {told} with {later.run_id}"


def each_hook_message_starts_its_run(evidence: Evidence) -> Iterator[str]:
    """NATS keeps a message until its run is stored."""
    if evidence.lost_writes:
        return
    started = {
        str(write.snapshot.params.get("payload"))
        for write in evidence.run_writes
        if write.snapshot is not None
    }
    for key in sorted(evidence.hook_messages - started):
        yield f"message {key} was stored, and has started no run"
    for key in sorted(evidence.waiting_messages):
        yield f"message {key} is still in the queue of hooks"


def runs_of_a_single_hook_do_not_overlap(evidence: Evidence) -> Iterator[str]:
    if evidence.lost_writes:
        return
    hooks = {f"hook:{hook_id}" for hook_id in evidence.single_hooks}
    running: dict[str, set[str]] = defaultdict(set)
    for write in evidence.run_writes:
        run = write.snapshot
        if run is None or run.cause is UNSET or run.cause.id not in hooks:
            continue
        of_hook = running[run.cause.id]
        if run.status.terminal:
            of_hook.discard(write.run_id)
        else:
            of_hook.add(write.run_id)
        if len(of_hook) > 1:
            yield f"runs {', '.join(sorted(of_hook))} of {run.cause.id} are open at the same time"


def a_retry_job_is_executed_once(evidence: Evidence) -> Iterator[str]:
    """By one gateway at a time, and never again after it has succeeded."""
    if evidence.lost_writes:
        return
    last: dict[str, RetryWrite] = {}
    for write in evidence.retry_writes:
        before, job = last.get(write.job.key), write.job
        last[job.key] = write
        if before is None or job.claim is None or job.claim == before.job.claim:
            continue
        if before.job.claim is not None and write.wall < before.job.claimed_until:
            yield f"retry job {job.job_id} is claimed while another gateway executes it"
        if before.job.status is RetryStatus.SUCCEEDED:
            yield f"retry job {job.job_id} has succeeded, and is executed again"


ALL: Final[tuple[Invariant, ...]] = (
    each_occurrence_starts_one_run,
    an_event_starts_one_run,
    a_repeated_event_is_a_duplicate,
    each_hook_message_starts_its_run,
    runs_of_a_single_hook_do_not_overlap,
    a_retry_job_is_executed_once,
)
