"""What must hold in every simulation, whatever fails on the way.

`check_run_write` sees each stored write of a run; the others see the evidence at the end, when faults have
stopped and everything has had time to settle. Each yields a sentence for what is broken.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, Final

from msgspec import UNSET

from pyoco_server.records.causes import CauseKind
from pyoco_server.records.journal_order import valid_entries
from pyoco_server.records.models import UNANSWERED, Reason, RunSnapshot, RunStatus, TaskStatus, WaitKind
from pyoco_server.records.operation_models import BulkState
from pyoco_server.records.wait_models import WaitState
from pyoco_server.records.workflow_event_models import RetryStatus
from tests.simulation.evidence import Evidence, Execution, Request, Response, RetryWrite

Invariant = Callable[[Evidence], Iterator[str]]

# How exactly a process knows the time.
_CLOCK_SEC: Final = 0.5
# How late an occurrence of a schedule may be started after the last fault.
_LATE_SEC: Final = 5.0


class InvariantBroken(AssertionError):
    """An invariant does not hold; the text says which, and of what."""


# After each write of a run


def check_run_write(run_id: str, before: RunSnapshot | None, after: RunSnapshot | None) -> Iterator[str]:
    """`before` is what was stored; None: nothing, or a delete marker."""
    if before is None or after is None:
        return
    if before.status.terminal and not _is_retry(before, after):
        yield f"run {run_id} was {before.status} and is written as {after.status}"
    if after.generation < before.generation:
        yield f"run {run_id} went back from generation {before.generation} to {after.generation}"
    if before.cancel_requested_at is not None and after.cancel_requested_at is None:
        yield f"the cancel request of run {run_id} was overwritten"
    if before.delivery is not None and after.delivery is not None and after.delivery < before.delivery:
        yield f"delivery {after.delivery} of run {run_id} has written after delivery {before.delivery}"


def _is_retry(before: RunSnapshot, after: RunSnapshot) -> bool:
    return before.status is RunStatus.FAILED and before.reason in UNANSWERED and after.status.parked


# At the end


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


def an_accepted_run_exists(evidence: Evidence) -> Iterator[str]:
    if evidence.lost_writes:
        return
    removed = {write.run_id for write in evidence.run_writes if write.snapshot is None} | evidence.purged
    for request in _of_kind(evidence, "submit", "rerun", "trigger", "workflow_event"):
        if request.response is Response.DONE and request.run_id not in evidence.runs.keys() | removed:
            yield f"run {request.run_id} was accepted, and does not exist"


def an_accepted_run_is_deleted_only_after_its_end(evidence: Evidence) -> Iterator[str]:
    accepted = {
        each.run_id for each in _of_kind(evidence, "submit", "rerun") if each.response is Response.DONE
    }
    last: dict[str, RunSnapshot] = {}
    for write in evidence.run_writes:
        if write.snapshot is not None:
            last[write.run_id] = write.snapshot
        elif write.run_id in accepted and write.run_id in last and not last[write.run_id].status.terminal:
            yield f"run {write.run_id} was accepted, and deleted while it was {last[write.run_id].status}"


def a_refused_submit_never_runs(evidence: Evidence) -> Iterator[str]:
    executed = {each.run_id for each in evidence.executions}
    for request in _of_kind(evidence, "submit", "rerun"):
        if request.response not in (Response.REFUSED, Response.UNAVAILABLE) or request.run_id is None:
            continue
        if request.key is not None and _was_accepted_later(evidence, request):
            continue
        if request.run_id in executed or request.run_id in evidence.runs:
            yield f"run {request.run_id} was refused ({request.text}), and was started all the same"


def _was_accepted_later(evidence: Evidence, request: Request) -> bool:
    return any(
        each.key == request.key and each.response is Response.DONE and each.run_id == request.run_id
        for each in evidence.requests
    )


def one_run_per_key(evidence: Evidence) -> Iterator[str]:
    by_key: dict[str, set[str]] = defaultdict(set)
    for request in _of_kind(evidence, "submit", "rerun", "trigger", "bulk", "workflow_event"):
        if request.key is not None and request.run_id is not None and request.response is Response.DONE:
            by_key[request.key].add(request.run_id)
    for key, run_ids in by_key.items():
        if len(run_ids) > 1 and not evidence.lost_writes:
            yield f"key {key} has started {len(run_ids)} runs: {', '.join(sorted(run_ids))}"


def an_unavailable_request_has_changed_nothing(evidence: Evidence) -> Iterator[str]:
    """A 503 of a gateway that could look: it is not done, and nobody else was told that it is."""
    for request in evidence.requests:
        if request.response is not Response.UNAVAILABLE or request.run_id is None:
            continue
        if any(_may_have_done(each, request) for each in evidence.requests):
            continue
        run = evidence.runs.get(request.run_id)
        if request.kind == "cancel" and run is not None and run.cancel_requested_at is not None:
            yield f"the cancel of run {request.run_id} was answered with 503, and is stored"
        if request.kind == "retry" and any(
            write.run_id == request.run_id
            and write.snapshot is not None
            and write.snapshot.status.parked
            and request.began_at <= write.at <= request.ended_at
            for write in evidence.run_writes
        ):
            yield f"the retry of run {request.run_id} was answered with 503, and is stored"


def _may_have_done(each: Request, request: Request) -> bool:
    """Whether it is another request for the same, at about the same time."""
    is_same = each is not request and (each.kind, each.run_id) == (request.kind, request.run_id)
    is_concurrent = each.began_at <= request.ended_at and request.began_at <= each.ended_at
    return is_same and each.response is not Response.REFUSED and (is_concurrent or request.kind == "cancel")


def a_bulk_operation_was_accepted(evidence: Evidence) -> Iterator[str]:
    """The id of each stored operation was returned to a user: after a 503 there is none."""
    requests = _of_kind(evidence, "bulk")
    if any(request.response is Response.UNKNOWN for request in requests):
        return
    accepted = {request.run_id for request in requests}
    for bulk_id in evidence.bulk.keys() - accepted:
        yield f"bulk operation {bulk_id} was answered with 503, and is executed"


def a_stored_cancel_ends_the_run(evidence: Evidence) -> Iterator[str]:
    for request in _of_kind(evidence, "cancel"):
        run = evidence.runs.get(request.run_id or "")
        if run is None or request.response is not Response.DONE or run.cancel_requested_at is None:
            continue
        if run.status is not RunStatus.CANCELLED:
            yield f"run {request.run_id} was cancelled, and is {run.status}"


def an_answer_counts_once(evidence: Evidence) -> Iterator[str]:
    if evidence.lost_writes:
        return
    accepted: dict[str, set[str]] = defaultdict(set)
    for request in _of_kind(evidence, "answer"):
        if request.wait_id is None:
            continue
        if request.response is Response.DONE:
            accepted[request.wait_id].add(repr(request.payload))
    for wait_id, payloads in accepted.items():
        if len(payloads) > 1:
            yield f"wait {wait_id} has accepted different answers: {', '.join(sorted(payloads))}"
        wait = evidence.waits.get(wait_id)
        if wait is not None and wait.state is not WaitState.ANSWERED:
            yield f"an answer to wait {wait_id} was accepted, and the wait is {wait.state}"
        elif wait is not None and repr(wait.payload) not in payloads:
            yield f"wait {wait_id} has accepted {payloads}, and has the answer {wait.payload!r}"


def a_repeated_answer_gets_its_receipt(evidence: Evidence) -> Iterator[str]:
    for request in _of_kind(evidence, "answer"):
        if request.key is None or request.response is not Response.REFUSED:
            continue
        same = [each for each in evidence.requests if each.kind == "answer" and each.key == request.key]
        if any(each.response is Response.DONE and each.ended_at < request.began_at for each in same):
            yield f"answer {request.key} was accepted, and its repetition refused: {request.text}"


def each_wait_event_is_published_once(evidence: Evidence) -> Iterator[str]:
    """Under its id; one for the opening of each question, and one for its decision."""
    if evidence.lost_writes:
        return
    published = Counter(event.event_id for event in evidence.wait_events)
    for event_id, count in published.items():
        if count > 1:
            yield f"event {event_id} is in the stream {count} times"
    for wait in evidence.waits.values():
        if not wait.is_human:
            continue
        expected = {f"{wait.wait_id}.opened", f"{wait.wait_id}.reused"}
        if not expected & published.keys():
            yield f"the opening of wait {wait.wait_id} was never published"
        is_decided = wait.state is not WaitState.OPEN and wait.taken_from is None
        if is_decided and f"{wait.wait_id}.{wait.state}" not in published:
            yield f"wait {wait.wait_id} is {wait.state}, which was never published"


def a_decided_wait_never_changes(evidence: Evidence) -> Iterator[str]:
    decided: dict[str, tuple[str, str]] = {}
    for wait in (write.record for write in evidence.wait_writes):
        now = str(wait.state), repr(wait.payload)
        before = decided.get(wait.wait_id)
        if before is not None and before != now:
            yield f"wait {wait.wait_id} was decided as {before} and is written as {now}"
        if wait.state is not WaitState.OPEN:
            decided[wait.wait_id] = now


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


def a_rerun_from_failed_tasks_reuses_the_others(evidence: Evidence) -> Iterator[str]:
    for request in _of_kind(evidence, "rerun"):
        if request.response is not Response.DONE or request.payload is None or evidence.lost_writes:
            continue
        origin = _last_snapshot(evidence, request.payload)
        done = (
            {name for name, state in origin.tasks.items() if state is TaskStatus.SUCCEEDED}
            if origin
            else set()
        )
        for each in evidence.executions:
            if each.run_id == request.run_id and each.task in done:
                yield f"run {each.run_id} executes {each.task} again, which its origin has finished"


def _last_snapshot(evidence: Evidence, run_id: str) -> RunSnapshot | None:
    found = (write.snapshot for write in reversed(evidence.run_writes) if write.run_id == run_id)
    return next((snapshot for snapshot in found if snapshot is not None), None)


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
            if used_sec < run.timeout_sec - _CLOCK_SEC:
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
        ) is not None and write.at - at < evidence.retention_sec - _CLOCK_SEC:
            yield f"run {write.run_id} was removed {write.at - at:.1f} s after its end"


def concurrent_retries_agree(evidence: Evidence) -> Iterator[str]:
    """The second of two retries at the same time finds that the run waits again."""
    retries = _of_kind(evidence, "retry")
    for request in retries:
        if request.response is not Response.REFUSED or "are gone" not in request.text:
            continue
        for each in retries:
            is_concurrent = each.began_at <= request.ended_at and request.began_at <= each.ended_at
            if each.response is Response.DONE and each.run_id == request.run_id and is_concurrent:
                yield f"one of two retries of run {request.run_id} was refused: {request.text}"


def a_wait_is_over_at_its_time(evidence: Evidence) -> Iterator[str]:
    """By the server's clock; a gateway knows it to some milliseconds."""
    for write in evidence.wait_writes:
        wait = write.record
        if wait.state is WaitState.EXPIRED and write.wall < wait.deadline_at - _CLOCK_SEC:
            yield f"wait {wait.wait_id} has expired {wait.deadline_at - write.wall:.1f} s before its time"


def a_signal_is_received_once(evidence: Evidence) -> Iterator[str]:
    received: Counter[tuple[str, str]] = Counter()
    for wait in evidence.waits.values():
        if wait.kind is WaitKind.SIGNAL and wait.state is WaitState.ANSWERED and wait.decision_id is not None:
            received[wait.run_id, wait.decision_id] += 1
    for (run_id, signal_id), count in received.items():
        if count > 1:
            yield f"signal {signal_id} of run {run_id} was received by {count} waits"


def what_was_sent_is_received(evidence: Evidence) -> Iterator[str]:
    sent = [each for each in _of_kind(evidence, "event") if each.response is Response.DONE]
    stored = {write.run_id: write.at for write in reversed(evidence.run_writes)}
    for wait in evidence.waits.values():
        if wait.state is not WaitState.OPEN or evidence.lost_writes:
            continue
        mailbox = evidence.mailboxes.get(wait.run_id)
        free = [each for each in mailbox.signals if each.taken_by is None] if mailbox is not None else []
        if wait.kind is WaitKind.SIGNAL and any(signal.name == wait.topic for signal in free):
            yield f"wait {wait.wait_id} is open, and its run has an unreceived signal {wait.topic}"
        later = [each for each in sent if each.began_at > stored.get(wait.run_id, 0.0)]
        if wait.kind is WaitKind.EVENT and any(event.payload == wait.topic for event in later):
            yield f"wait {wait.wait_id} is open, although the event {wait.topic} was sent"


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
    """Also one that was not answered, or was sent again by the retry queue: its payload is its key."""
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
    answered = [each for each in _of_kind(evidence, "workflow_event") if each.response is Response.DONE]
    for first, later in permutations(answered, 2):
        if first.key != later.key or later.began_at < first.ended_at:
            continue
        if not later.is_duplicate or later.run_id != first.run_id:
            told = "a duplicate" if later.is_duplicate else "new"
            yield f"event {later.key} has run {first.run_id}, and is answered as {told} with {later.run_id}"


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


def _of_kind(evidence: Evidence, *kinds: str) -> list[Request]:
    return [request for request in evidence.requests if request.kind in kinds]


ALL: Final[tuple[Invariant, ...]] = (
    no_open_run_is_stuck,
    nothing_is_left_over,
    no_finished_task_is_executed_again,
    replay_equals_what_happened,
    an_accepted_run_exists,
    an_accepted_run_is_deleted_only_after_its_end,
    a_refused_submit_never_runs,
    one_run_per_key,
    an_unavailable_request_has_changed_nothing,
    a_bulk_operation_was_accepted,
    a_stored_cancel_ends_the_run,
    an_answer_counts_once,
    a_repeated_answer_gets_its_receipt,
    each_wait_event_is_published_once,
    a_decided_wait_never_changes,
    lists_equal_the_bucket,
    no_run_fails_without_cause,
    dead_letters_match_failed_runs,
    a_followed_log_ends_with_the_run,
    a_rerun_from_failed_tasks_reuses_the_others,
    a_timed_out_run_has_used_its_time,
    an_ended_run_is_kept_for_its_time,
    concurrent_retries_agree,
    a_wait_is_over_at_its_time,
    a_signal_is_received_once,
    what_was_sent_is_received,
    each_occurrence_starts_one_run,
    an_event_starts_one_run,
    a_repeated_event_is_a_duplicate,
    a_retry_job_is_executed_once,
)


def check_loop_errors(errors: Sequence[Mapping[str, Any]]) -> None:
    """No callback or task of a program fails unnoticed."""
    for each in errors:
        raise InvariantBroken(f"{each['message']}: {each.get('exception')!r}")


def check(evidence: Evidence) -> None:
    """Raise for the first that does not hold."""
    for invariant in ALL:
        for problem in invariant(evidence):
            raise InvariantBroken(f"{invariant.__name__.replace('_', ' ')}: {problem}")
