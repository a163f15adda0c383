"""Rules from facts to findings, the most important finding first; explain_texts has their texts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import UNSET, structs

from pyoco_server.broker.queue.queue_position import JobState
from pyoco_server.config.settings_table import MIN_ACK_WAIT_SEC
from pyoco_server.errors.error_table import Err
from pyoco_server.records.runs.run_models import (
    Reason,
    RerunMode,
    RunSnapshot,
    RunStatus,
    TaskStatus,
    WaitKind,
)
from pyoco_server.records.workers.worker_models import WorkerRecord, WorkerState
from pyoco_server.runs.explain.explain_facts import Facts
from pyoco_server.runs.lifecycle.waiting_state import queued_since

# Workers and tasks listed in the evidence.
_MAX_LISTED = 10
_KNOWN_REASONS = {
    Reason.EXECUTION_ERROR,
    Reason.FLOW_NOT_FOUND,
    Reason.INVALID_JOB,
    Reason.EXECUTOR_CRASHED,
    Reason.DELIVERIES_EXHAUSTED,
    Reason.TIMEOUT,
    Reason.HUMAN_TIMEOUT,
    Reason.HUMAN_WITHDRAWN,
}
# The findings about open waits that ask nobody.
_NOT_HUMAN = {
    WaitKind.SLEEP: "sleeping",
    WaitKind.SIGNAL: "waiting_signal",
    WaitKind.EVENT: "waiting_event",
}


@dataclass(frozen=True, slots=True)
class Finding:
    code: str
    evidence: dict[str, Any] = field(default_factory=dict)


def explain(facts: Facts) -> list[Finding]:
    """Never empty."""
    unverified = [] if facts.authentic else [Finding("unverified", {"tag": facts.snapshot.tag})]
    return unverified + _explained(facts)


def _explained(facts: Facts) -> list[Finding]:
    found: Iterable[Finding]
    match facts.snapshot.status:
        case RunStatus.SCHEDULED:
            found = [_scheduled(facts)]
        case RunStatus.PENDING:
            found = [*_pending(facts), *_after_answer(facts)]
        case RunStatus.RUNNING:
            found = _running(facts)
        case RunStatus.WAITING_HUMAN | RunStatus.WAITING:
            found = list(_parked(facts)) or [Finding("wait_over")]
        case RunStatus.CANCELLING:
            found = [_cancelling(facts)]
        case status if not status.known:
            found = [Finding("status_of_newer_version", {"status": status})]
        case _:
            found = [_ended(facts.snapshot), *_executed_again(facts.snapshot)]
    return [*found, *_artifacts_left_out(facts.snapshot)]


def nats_unavailable(detail: str, status: str, since: float) -> Finding:
    return Finding("nats_unavailable", {"detail": detail, "connection": status, "since": since})


def nats_cannot_write(detail: str, streams: Sequence[str], since: float) -> Finding:
    return Finding("nats_cannot_write", {"detail": detail, "streams": list(streams), "since": since})


def _scheduled(facts: Facts) -> Finding:
    run = facts.snapshot
    start_at = run.start_at or 0.0
    evidence = {
        "start_at": start_at,
        "left_sec": max(0.0, start_at - facts.now),
        "overdue_sec": max(0.0, facts.now - start_at),
        "tag": run.tag,
    }
    late = facts.now - start_at > facts.timing.silence.unstarted_sec
    return Finding("start_overdue" if late else "scheduled", evidence)


def _pending(facts: Facts) -> Iterator[Finding]:
    run = facts.snapshot
    waited = facts.since(queued_since(run))
    state = None if facts.location is None else facts.location.state
    if state is JobState.ABSENT and waited > facts.timing.silence.unstarted_sec:
        yield Finding("job_missing", {"waiting_sec": waited, "mended_within_sec": 2 * facts.timing.sweep_sec})
        return
    blockers = list(_blockers(facts))
    if state is JobState.DELIVERED:
        ack_wait = None if facts.queue is None else facts.queue.limits.ack_wait_sec
        yield Finding("delivered_not_begun", {"waiting_sec": waited, "ack_wait_sec": ack_wait})
    yield from blockers
    position = None if facts.location is None else facts.location.position
    if facts.queue is not None and state in (JobState.WAITING, JobState.UNKNOWN):
        ahead = None if position is None else position - 1
        if blockers or ahead != 0:
            evidence = {"position": position, "waiting": facts.queue.waiting, "waiting_sec": waited}
            yield Finding("waiting_in_queue" if position is not None else "far_back_in_queue", evidence)
            return
    if not blockers and state is not JobState.DELIVERED:
        free = [worker.worker_id for worker in _accepting(facts) if _free_slots(worker)]
        yield Finding("about_to_start", {"waiting_sec": waited, "workers": free[:_MAX_LISTED]})


def _blockers(facts: Facts) -> Iterator[Finding]:
    """Why no worker takes a job of the run's tag; nothing when one is free."""
    tag = facts.snapshot.tag
    known = facts.of_tag
    living = [worker for worker in known if facts.alive(worker)]
    if not living:
        yield _no_worker(facts, tag, known)
        return
    if facts.queue is not None and facts.queue.paused:
        yield Finding("queue_paused", {"tag": tag})
    if facts.queue is not None and facts.queue.limits.ack_wait_sec < MIN_ACK_WAIT_SEC:
        ack_wait = facts.queue.limits.ack_wait_sec
        evidence = {"tag": tag, "ack_wait_sec": ack_wait, "expected_sec": MIN_ACK_WAIT_SEC}
        yield Finding("ack_wait_too_short", evidence)
    accepting = _accepting(facts)
    if not accepting:
        yield Finding(
            "workers_paused", {"tag": tag, "workers": [_worker_evidence(facts, each) for each in living]}
        )
    elif all(worker.executor_error and not worker.slots_busy for worker in accepting):
        workers = [
            _worker_evidence(facts, each) | {"executor_error": each.executor_error} for each in accepting
        ]
        yield Finding("executors_failing", {"tag": tag, "workers": workers[:_MAX_LISTED]})
    elif facts.queue is not None and 0 < facts.queue.in_work_limit <= facts.queue.in_work:
        yield Finding("in_work_limit_reached", {"tag": tag, "limit": facts.queue.in_work_limit})
    elif not any(_free_slots(worker) for worker in accepting):
        yield Finding(
            "all_slots_busy",
            {
                "tag": tag,
                "slots": sum(worker.slots for worker in accepting),
                "workers": [_worker_evidence(facts, worker) for worker in accepting[:_MAX_LISTED]],
                "worker_count": len(accepting),
            },
        )


def _no_worker(facts: Facts, tag: str, known: list[WorkerRecord]) -> Finding:
    if known:
        newest = sorted(known, key=lambda worker: -worker.last_seen_at)[:_MAX_LISTED]
        return Finding(
            "workers_gone", {"tag": tag, "workers": [_worker_evidence(facts, each) for each in newest]}
        )
    served = {each for worker in facts.workers if facts.alive(worker) for each in worker.tags}
    return Finding("no_worker_for_tag", {"tag": tag, "served_tags": sorted(served)[:_MAX_LISTED]})


def _accepting(facts: Facts) -> list[WorkerRecord]:
    return [each for each in facts.of_tag if facts.alive(each) and not each.paused and not each.draining]


def _free_slots(worker: WorkerRecord) -> int:
    return worker.slots - worker.slots_busy


def _worker_evidence(facts: Facts, worker: WorkerRecord) -> dict[str, Any]:
    return {
        "worker_id": worker.worker_id,
        "state": facts.state_of(worker),
        "paused": worker.paused,
        "draining": worker.draining,
        "slots": worker.slots,
        "slots_busy": worker.slots_busy,
        "run_ids": worker.current_run_ids[:_MAX_LISTED],
        "last_seen_at": worker.last_seen_at,
    }


def _running(facts: Facts) -> Iterator[Finding]:
    lost = _lost(facts)
    if lost is None:
        yield _executing(facts)
        owner = facts.owner
        if owner is not None and (owner.paused or owner.draining):
            code = "worker_draining" if owner.draining else "worker_paused"
            yield Finding(code, {"worker_id": owner.worker_id})
    else:
        yield lost
        # The next owner may be blocked as well.
        yield from _blockers(facts)
    yield from _limits(facts)
    yield from _executed_again(facts.snapshot)


def _lost(facts: Facts) -> Finding | None:
    """Why the run is not being executed; None when its worker executes it."""
    run, owner = facts.snapshot, facts.owner
    silent = facts.since(run.heartbeat_at)
    ack_wait = 0.0 if facts.queue is None else facts.queue.limits.ack_wait_sec
    evidence: dict[str, Any] = {
        "worker_id": run.worker_id,
        "last_heartbeat_at": run.heartbeat_at,
        "silent_sec": silent,
        "ack_wait_sec": ack_wait,
    }
    if run.handed_over_at is not UNSET:
        evidence |= {
            "handed_over_at": run.handed_over_at,
            "handed_over_sec": facts.since(run.handed_over_at),
        }
        return Finding("handed_over", evidence)
    late = facts.timing.is_late(silent)
    if owner is None:
        return Finding("worker_unknown", evidence) if late else None
    evidence["worker_last_seen_at"] = owner.last_seen_at
    state = facts.state_of(owner)
    if state is WorkerState.STOPPED_GRACEFUL:
        return Finding("worker_stopped", evidence)
    if not late and owner.instance_id not in facts.lost:
        return None
    if state is WorkerState.DISCONNECTED:
        return Finding("worker_disconnected", evidence)
    code = "heartbeat_overdue" if run.run_id in owner.current_run_ids else "handed_back"
    return Finding(code, evidence)


def _executing(facts: Facts) -> Finding:
    run, last = facts.snapshot, facts.last_finished
    # Of this attempt: an earlier one may have ended long ago.
    began = run.attempt_started_at or run.start_time
    since = began if last is None else max(last.ended_at, began or 0.0)
    running = [name for name, state in run.tasks.items() if state is TaskStatus.RUNNING]
    evidence = {
        "worker_id": run.worker_id,
        "last_heartbeat_at": run.heartbeat_at,
        "running_tasks": running[:_MAX_LISTED],
        "finished_tasks": sum(state is TaskStatus.SUCCEEDED for state in run.tasks.values()),
        "task_count": len(run.tasks),
        "last_finished_task": None if last is None else last.task,
        "last_finished_at": None if last is None else last.ended_at,
        "quiet_sec": facts.since(since),
        "last_output_at": facts.last_output_at,
        "worker_last_progress_at": None if facts.owner is None else facts.owner.last_progress_at,
    }
    return Finding("executing" if running else "between_tasks", evidence)


def _limits(facts: Facts) -> Iterator[Finding]:
    run = facts.snapshot
    most = 0 if facts.queue is None else facts.queue.limits.max_deliver
    number = 0 if run.delivery is None else run.delivery.number
    attempt = run.shown_attempt
    if attempt > 1:
        left = max(0, most - number) if most > 0 else None
        evidence = {"attempt": attempt, "delivery": number, "max_deliver": most or None, "left": left}
        yield Finding("last_attempt" if left == 0 else "later_attempt", evidence)
    if run.timeout_sec is not None and run.start_time is not None:
        if run.used_sec is UNSET:
            # Of a worker of an older version. Waits do not count.
            ends_at = run.start_time + (run.waited_sec or 0.0) + run.timeout_sec
        else:
            ends_at = run.heartbeat_at + run.timeout_sec - run.used_sec
        left_sec = max(0.0, ends_at - facts.now)
        yield Finding(
            "time_limit", {"timeout_sec": run.timeout_sec, "ends_at": ends_at, "left_sec": left_sec}
        )


def _after_answer(facts: Facts) -> Iterator[Finding]:
    """Of a run in the queue that has waited: what it is queued for, and what is still open."""
    run = facts.snapshot
    if not run.generation:
        return
    yield Finding("answered", {"waiting_sec": facts.since(queued_since(run)), "tag": run.tag})
    if asked := _waiting_for_people(facts):
        yield Finding("other_questions_open", asked.evidence)
    yield from _waiting_for_others(facts)


def _parked(facts: Facts) -> Iterator[Finding]:
    """What it waits for: people first."""
    asked = _waiting_for_people(facts)
    if asked is not None:
        yield asked
        yield from _asked_again(facts)
    yield from _waiting_for_others(facts)


def _waiting_for_others(facts: Facts) -> Iterator[Finding]:
    """The sleep that ends next, and the signals and events, of the open waits."""
    for kind, code in _NOT_HUMAN.items():
        waits = [wait for wait in facts.snapshot.open_waits or [] if wait.kind == kind]
        if not waits:
            continue
        ends_at = min((wait.deadline_at for wait in waits if wait.deadline_at is not None), default=None)
        left = None if ends_at is None else ends_at - facts.now
        evidence = {
            "waits": [
                {"task": wait.task, "wait_id": wait.wait_id, "topic": wait.topic, "ends_at": wait.deadline_at}
                for wait in waits[:_MAX_LISTED]
            ],
            "wait_count": len(waits),
            "topics": list(dict.fromkeys(wait.topic for wait in waits if wait.topic))[:_MAX_LISTED],
            "topic": waits[0].topic,
            "since_at": min((wait.since for wait in waits if wait.since is not None), default=None),
            "ends_at": ends_at,
            "left_sec": None if left is None else max(0.0, left),
        }
        is_over = left is not None and left <= 0
        yield Finding("wait_over" if is_over else code, evidence)


def _waiting_for_people(facts: Facts) -> Finding | None:
    run = facts.snapshot
    waits = [wait for wait in run.open_waits or [] if wait.kind is WaitKind.HUMAN]
    if not waits and run.status is not RunStatus.WAITING_HUMAN:
        return None
    first = min((wait.deadline_at for wait in waits if wait.deadline_at is not None), default=None)
    left = None if first is None else first - facts.now
    evidence = {
        "waits": [
            {"task": wait.task, "wait_id": wait.wait_id, "message": wait.message, "ends_at": wait.deadline_at}
            for wait in waits[:_MAX_LISTED]
        ],
        "wait_count": len(waits),
        "message": run.wait_message or None,
        "waiting_sec": facts.since(run.waiting_since or run.updated_at),
        "left_sec": None if left is None else max(0.0, left),
    }
    overdue = left is not None and left <= 0
    return Finding("human_deadline_over" if overdue else "waiting_human", evidence)


def _asked_again(facts: Facts) -> Iterator[Finding]:
    """The questions that had changed when the run continued."""
    changed = [wait for wait in facts.snapshot.open_waits or [] if wait.asked_again]
    if changed:
        tasks = list(dict.fromkeys(wait.task for wait in changed))
        yield Finding("question_changed", {"tasks": tasks[:_MAX_LISTED], "why": changed[0].asked_again})


def _cancelling(facts: Facts) -> Finding:
    run = facts.snapshot
    requested = run.cancel_requested_at or run.updated_at
    evidence: dict[str, Any] = {
        "requested_at": run.cancel_requested_at,
        "requested_by": run.cancel_requested_by,
        "reason": run.cancel_reason,
        "worker_id": run.worker_id,
    }
    silence = facts.timing.silence
    if run.delivery is None:
        return Finding("cancel_without_worker", evidence | {"ended_within_sec": silence.unstarted_sec})
    if (lost := _lost(facts)) is not None:
        ack_wait = 0.0 if facts.queue is None else facts.queue.limits.ack_wait_sec
        evidence |= {"worker": lost.code, "ended_within_sec": ack_wait + silence.heartbeats_sec}
        return Finding("cancel_without_worker", evidence)
    grace_sec = 0.0 if run.cancel_force is True else facts.timing.grace_sec
    left = requested + grace_sec - facts.now
    evidence |= {"grace_sec": grace_sec, "grace_left_sec": max(0.0, left)}
    return Finding("cancel_grace" if left > 0 else "cancel_overdue", evidence)


def _ended(run: RunSnapshot) -> Finding:
    failed = [name for name, state in run.tasks.items() if state is TaskStatus.FAILED]
    evidence: dict[str, Any] = {
        "reason": run.reason,
        "error": run.error,
        "failed_tasks": [
            {"task": name, "error": _record_text(run, name, "error")} for name in failed[:_MAX_LISTED]
        ],
        "worker_id": run.worker_id,
        "attempt": run.shown_attempt,
        "ended_at": run.end_time,
        "timeout_sec": run.timeout_sec,
    }
    if run.status is RunStatus.COMPLETED:
        return Finding("completed_with_failures" if failed else "completed", evidence)
    if run.status is RunStatus.CANCELLED:
        evidence |= {"requested_by": run.cancel_requested_by, "cancel_reason": run.cancel_reason}
        return Finding("cancel_forced" if run.reason == Reason.CANCEL_FORCED else "cancelled", evidence)
    if run.reason == Reason.INVALID_JOB and (run.error or "").startswith(Err.UNVERIFIED_RUN.err_id):
        return Finding("failed_unverified", evidence)
    if run.reason == Reason.EXECUTION_ERROR:
        if not failed:
            return Finding("failed_outside_tasks", evidence)
        # The run's own error names the task once more.
        evidence["task_error"] = evidence["failed_tasks"][0]["error"] or run.error
    return Finding(f"failed_{run.reason}" if run.reason in _KNOWN_REASONS else "failed", evidence)


def _executed_again(run: RunSnapshot) -> Iterator[Finding]:
    """Only a later attempt, or a rerun, starts with a journal and has such tasks."""
    if run.attempt <= 1 and run.rerun_mode in (None, RerunMode.START):
        return
    reasons = {task: _record_text(run, task, "executed_again") for task in run.task_records or {}}
    again = [{"task": task, "reason": reason} for task, reason in reasons.items() if reason]
    if again:
        yield Finding("executed_again", {"tasks": again[:_MAX_LISTED], "reason": again[0]["reason"]})


def _artifacts_left_out(run: RunSnapshot) -> Iterator[Finding]:
    if run.artifacts is not UNSET and run.artifacts.left_out:
        first = run.artifacts.left_out[0]
        evidence = {
            "files": [structs.asdict(each) for each in run.artifacts.left_out[:_MAX_LISTED]],
            "file_count": run.artifacts.left_out_count,
            "stored_count": run.artifacts.count,
            "name": first.name,
            "reason": first.reason,
        }
        yield Finding("artifacts_left_out", evidence)


def _record_text(run: RunSnapshot, task: str, field: str) -> str | None:
    record = (run.task_records or {}).get(task)
    if record is None:
        return None
    fields = msgspec.json.decode(record)
    text = fields.get(field) if isinstance(fields, dict) else None
    return text if isinstance(text, str) else None
