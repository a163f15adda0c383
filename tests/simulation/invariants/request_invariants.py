"""Invariants of the requests of users: what was accepted happens, and what was refused does not."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus, TaskStatus
from tests.simulation.invariants.evidence import Evidence, Invariant, Request, Response


def an_accepted_run_exists(evidence: Evidence) -> Iterator[str]:
    if evidence.lost_writes:
        return
    removed = {write.run_id for write in evidence.run_writes if write.snapshot is None} | evidence.purged
    for request in evidence.of_kind("submit", "rerun", "trigger", "workflow_event", "delivery"):
        if request.response is Response.DONE and request.run_id not in evidence.runs.keys() | removed:
            yield f"run {request.run_id} was accepted, and does not exist"


def an_accepted_run_is_deleted_only_after_its_end(evidence: Evidence) -> Iterator[str]:
    accepted = {each.run_id for each in evidence.of_kind("submit", "rerun") if each.response is Response.DONE}
    last: dict[str, RunSnapshot] = {}
    for write in evidence.run_writes:
        if write.snapshot is not None:
            last[write.run_id] = write.snapshot
        elif write.run_id in accepted and write.run_id in last and not last[write.run_id].status.terminal:
            yield f"run {write.run_id} was accepted, and deleted while it was {last[write.run_id].status}"


def a_refused_submit_never_runs(evidence: Evidence) -> Iterator[str]:
    executed = {each.run_id for each in evidence.executions}
    for request in evidence.of_kind("submit", "rerun"):
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
    for request in evidence.of_kind("submit", "rerun", "trigger", "bulk", "workflow_event", "delivery"):
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
    requests = evidence.of_kind("bulk")
    if any(request.response is Response.UNKNOWN for request in requests):
        return
    accepted = {request.run_id for request in requests}
    for bulk_id in evidence.bulk.keys() - accepted:
        yield f"bulk operation {bulk_id} was answered with 503, and is executed"


def a_later_letter_is_kept(evidence: Evidence) -> Iterator[str]:
    """What removes letters removes those that were there when it was asked for; a retry that of its run."""
    if evidence.lost_writes:
        return
    asked_at = max((each.ended_at for each in evidence.of_kind("bulk", "rerun")), default=0.0)
    kept = {letter.run_id for letter in evidence.letters}
    kept |= {each.run_id for each in evidence.of_kind("retry")}
    for write in evidence.letter_writes:
        if write.at > asked_at and write.letter.run_id not in kept:
            yield f"the letter of run {write.letter.run_id} was removed, and nobody has asked for that"


def a_stored_cancel_ends_the_run(evidence: Evidence) -> Iterator[str]:
    for request in evidence.of_kind("cancel"):
        run = evidence.runs.get(request.run_id or "")
        if run is None or request.response is not Response.DONE or run.cancel_requested_at is None:
            continue
        if run.status is not RunStatus.CANCELLED:
            yield f"run {request.run_id} was cancelled, and is {run.status}"


def a_rerun_from_failed_tasks_reuses_the_others(evidence: Evidence) -> Iterator[str]:
    for request in evidence.of_kind("rerun"):
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


def concurrent_retries_agree(evidence: Evidence) -> Iterator[str]:
    """The second of two retries at the same time finds that the run waits again."""
    retries = evidence.of_kind("retry")
    for request in retries:
        if request.response is not Response.REFUSED or "are gone" not in request.text:
            continue
        for each in retries:
            is_concurrent = each.began_at <= request.ended_at and request.began_at <= each.ended_at
            if each.response is Response.DONE and each.run_id == request.run_id and is_concurrent:
                yield f"one of two retries of run {request.run_id} was refused: {request.text}"


ALL: Final[tuple[Invariant, ...]] = (
    an_accepted_run_exists,
    an_accepted_run_is_deleted_only_after_its_end,
    a_refused_submit_never_runs,
    one_run_per_key,
    an_unavailable_request_has_changed_nothing,
    a_bulk_operation_was_accepted,
    a_later_letter_is_kept,
    a_stored_cancel_ends_the_run,
    a_rerun_from_failed_tasks_reuses_the_others,
    concurrent_retries_agree,
)
