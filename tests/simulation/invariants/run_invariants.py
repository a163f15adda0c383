"""Invariants of runs, and of what is read of them."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from pyoco_server.records.runs.bulk_models import BulkState
from pyoco_server.records.runs.journal_order import valid_entries
from pyoco_server.records.runs.run_models import UNANSWERED, Reason, RunSnapshot, RunStatus
from pyoco_server.records.waits.wait_models import WaitState
from tests.simulation.invariants.evidence import CLOCK_SEC, Evidence, Execution, Invariant


def check_run_write(
    run_id: str, before: RunSnapshot | None, after: RunSnapshot | None, *, lost_writes: bool = False
) -> Iterator[str]:
    """`before` is what was stored; None: nothing, or a delete marker."""
    if before is None or after is None:
        return
    if before.status.terminal and not _is_retry(before, after):
        yield f"run {run_id} was {before.status} and is written as {after.status}"
    if after.generation < before.generation:
        yield f"run {run_id} went back from generation {before.generation} to {after.generation}"
    if before.cancel_requested_at is not None and after.cancel_requested_at is None:
        yield f"the cancel request of run {run_id} was overwritten"
    if lost_writes:
        # A queue that has lost its newest jobs uses their sequences again.
        return
    if before.delivery is not None and after.delivery is not None and after.delivery < before.delivery:
        yield f"delivery {after.delivery} of run {run_id} has written after delivery {before.delivery}"


def _is_retry(before: RunSnapshot, after: RunSnapshot) -> bool:
    return before.status is RunStatus.FAILED and before.reason in UNANSWERED and after.status.parked


def no_open_run_is_stuck(evidence: Evidence) -> Iterator[str]:
    for run_id, run in evidence.runs.items():
        if run.status.terminal:
            continue
        if run.status is RunStatus.SCHEDULED and (run.start_at or 0.0) > evidence.now:
            continue
        if run.status.parked and any(_is_awaited(evidence, each.wait_id) for each in run.open_waits or []):
            continue
        waits = {each.wait_id: _state(evidence, each.wait_id) for each in run.open_waits or []}
        yield f"run {run_id} is {run.status} (waits {waits}), and nothing will change that"
    for wait_id, wait in evidence.waits.items():
        owner = evidence.runs.get(wait.run_id)
        if wait.state is WaitState.OPEN and (owner is None or owner.status.terminal):
            yield f"wait {wait_id} is open, and its run is {owner.status if owner else 'deleted'}"


def _is_awaited(evidence: Evidence, wait_id: str) -> bool:
    wait = evidence.waits.get(wait_id)
    return wait is not None and wait.state is WaitState.OPEN and wait.deadline_at > evidence.now


def _state(evidence: Evidence, wait_id: str) -> str:
    wait = evidence.waits.get(wait_id)
    return "missing" if wait is None else str(wait.state)


def nothing_is_left_over(evidence: Evidence) -> Iterator[str]:
    for run_id in evidence.queued:
        run = evidence.runs.get(run_id)
        if run is None or run.status.terminal or run.status.parked:
            yield f"the queue has a job of run {run_id}, which is {run.status if run else 'deleted'}"
    for wait_id in evidence.with_outbox:
        yield f"the events of wait {wait_id} are still in its outbox"
    for bulk_id, bulk in evidence.bulk.items():
        if bulk.state is BulkState.RUNNING:
            yield f"bulk operation {bulk_id} has not ended"


def no_finished_task_is_executed_again(evidence: Evidence) -> Iterator[str]:
    """A task whose result was in the journal when an attempt began is not executed by that attempt."""
    if evidence.lost_writes:
        return
    began: dict[tuple[str, int], float] = {}
    for each in evidence.executions:
        attempt = each.run_id, each.attempt
        began[attempt] = min(began.get(attempt, each.began_at), each.began_at)
    by_run = defaultdict(list)
    for write in evidence.journal:
        by_run[write.run_id].append(write)
    for each in evidence.executions:
        known = [
            write.entry
            for write in by_run[each.run_id]
            if write.at < began[each.run_id, each.attempt] and write.entry.attempt < each.attempt
        ]
        if any(entry.task == each.task and entry.has_value for entry in valid_entries(known)):
            task = f"task {each.task} of run {each.run_id}"
            yield f"{task} was finished and is executed by attempt {each.attempt}"


def replay_equals_what_happened(evidence: Evidence) -> Iterator[str]:
    """In a completed run, each task was computed from the results that the other tasks have in the end."""
    for run_id, run in evidence.runs.items():
        if run.status is not RunStatus.COMPLETED:
            continue
        mine = [each for each in evidence.executions if each.run_id == run_id and each.ended_at is not None]
        if not mine:
            continue
        last = max(each.attempt for each in mine)
        view = _final_view(mine, last)
        for each in mine:
            if view.get(each.task) != each.value:
                # Its result does not count.
                continue
            for name, used in each.inputs.items():
                if name in view and view[name] != used:
                    yield (
                        f"run {run_id}: {each.task} was computed from {name}={used!r}, "
                        f"and the run has completed with {name}={view[name]!r}"
                    )


def _final_view(executions: list[Execution], last: int) -> dict[str, object]:
    """The result of each task as the last attempt knows it: replayed, or executed by it."""
    view: dict[str, object] = {}
    for each in executions:
        if each.attempt == last:
            view.update(each.replayed)
    view.update({each.task: each.value for each in executions if each.attempt == last})
    return view


def lists_equal_the_bucket(evidence: Evidence) -> Iterator[str]:
    stored = {run_id: str(run.status) for run_id, run in evidence.runs.items()}
    for gateway, listed in evidence.listed_runs.items():
        for run_id in sorted(listed.keys() | stored.keys()):
            if listed.get(run_id) != stored.get(run_id):
                yield (
                    f"{gateway} lists run {run_id} as {listed.get(run_id)}, "
                    f"and the bucket has {stored.get(run_id)}"
                )
    open_waits = {wait_id for wait_id, wait in evidence.waits.items() if wait.state is WaitState.OPEN}
    for gateway, found in evidence.open_waits.items():
        for wait_id in sorted(found ^ open_waits):
            where = "in its list only" if wait_id in found else "in the bucket only"
            yield f"{gateway}: the open wait {wait_id} is {where}"


def no_run_fails_without_cause(evidence: Evidence) -> Iterator[str]:
    """Deliveries are exhausted only by a worker that has begun the run and has not finished it."""
    begun = {
        write.run_id
        for write in evidence.run_writes
        if write.snapshot is not None and write.snapshot.delivery is not None
    }
    for run_id, run in evidence.runs.items():
        if run.reason == Reason.DELIVERIES_EXHAUSTED and run_id not in begun:
            yield f"run {run_id} has failed with {run.reason}, and no worker has ever begun it"


def dead_letters_match_failed_runs(evidence: Evidence) -> Iterator[str]:
    failed = {
        (write.run_id, str(write.snapshot.reason))
        for write in evidence.run_writes
        if write.snapshot is not None and write.snapshot.status is RunStatus.FAILED
    }
    for letter in evidence.letters:
        if letter.run_id is not None and (letter.run_id, str(letter.reason)) not in failed:
            yield f"a dead letter says that run {letter.run_id} failed with {letter.reason}: it never did"


def a_followed_log_ends_with_the_run(evidence: Evidence) -> Iterator[str]:
    for log in evidence.followed:
        run = evidence.runs.get(log.run_id)
        if run is not None and log.status != str(run.status):
            yield f"the log of run {log.run_id} ended with {log.status}, and the run is {run.status}"


def a_timed_out_run_has_used_its_time(evidence: Evidence) -> Iterator[str]:
    """By a clock that does not jump."""
    started: dict[str, float] = {}
    for write in evidence.run_writes:
        run = write.snapshot
        if run is None:
            continue
        if run.start_time is not None:
            started.setdefault(write.run_id, write.at)
        if run.reason == Reason.TIMEOUT and run.timeout_sec is not None:
            used_sec = write.at - started.get(write.run_id, write.at)
            if used_sec < run.timeout_sec - CLOCK_SEC:
                yield f"run {write.run_id} has timed out after {used_sec:.1f} s of {run.timeout_sec:g} s"


def an_ended_run_is_kept_for_its_time(evidence: Evidence) -> Iterator[str]:
    ended: dict[str, float] = {}
    for write in evidence.run_writes:
        if write.snapshot is not None:
            if write.snapshot.status.terminal:
                ended[write.run_id] = write.at
            else:
                ended.pop(write.run_id, None)
        elif (
            at := ended.get(write.run_id)
        ) is not None and write.at - at < evidence.retention_sec - CLOCK_SEC:
            yield f"run {write.run_id} was removed {write.at - at:.1f} s after its end"


ALL: Final[tuple[Invariant, ...]] = (
    no_open_run_is_stuck,
    nothing_is_left_over,
    no_finished_task_is_executed_again,
    replay_equals_what_happened,
    lists_equal_the_bucket,
    no_run_fails_without_cause,
    dead_letters_match_failed_runs,
    a_followed_log_ends_with_the_run,
    a_timed_out_run_has_used_its_time,
    an_ended_run_is_kept_for_its_time,
)
