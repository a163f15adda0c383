"""State transitions of a wait, as pure functions on its record."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import UNSET, structs

from pyoco_server.records.runs.run_models import OpenWait, Reason, WaitKind
from pyoco_server.records.waits.wait_models import (
    NO_DEADLINE,
    Actor,
    Decision,
    Question,
    WaitEvent,
    WaitEventKind,
    WaitRecord,
    WaitState,
    canonical,
    wait_id_of,
)

# The note of waits that were cancelled because their run ended; `retry` reopens waits with this note.
RUN_ENDED: Final = "the run is over"

# Of unanswered waits, in the error of their run.
_MAX_NAMED: Final = 10
_SHOWN_CHARS: Final = 200

_KINDS: Final = {
    WaitState.OPEN: WaitEventKind.OPENED,
    WaitState.ANSWERED: WaitEventKind.ANSWERED,
    WaitState.EXPIRED: WaitEventKind.EXPIRED,
    WaitState.CANCELLED: WaitEventKind.CANCELLED,
    WaitState.WITHDRAWN: WaitEventKind.WITHDRAWN,
}


def satisfied(
    wait: WaitRecord, *, payload: Any, decision_id: str, at: float, by: Actor | None = None
) -> WaitRecord:
    """The wait after the signal or event that it waited for: its data, its id, when, and who sent it."""
    return structs.replace(
        wait,
        state=WaitState.ANSWERED,
        payload=payload,
        decision_id=decision_id,
        decided_at=at,
        decided_by=by,
    )


def expired(wait: WaitRecord, *, at: float) -> WaitRecord:
    """The wait after its deadline.

    Only its state changes: where it is read, its answer is the default of the question, if it has one
    (`WaitRecord.value` in records/waits/wait_models.py).
    """
    return structs.replace(wait, state=WaitState.EXPIRED, decided_at=at)


def expired_unresolved(wait: WaitRecord) -> bool:
    """Whether the wait expired and its task cannot continue: no default, and `on_timeout` is `fail`."""
    return wait.state is WaitState.EXPIRED and not wait.resolved


def ended_unanswered(wait: WaitRecord) -> bool:
    """Whether the run fails because of this wait: it expired unresolved, or was withdrawn."""
    return wait.state is WaitState.WITHDRAWN or expired_unresolved(wait)


def change_of(wait: WaitRecord, asked: Question) -> str | None:
    """What differs between the question that people see and the one that the task asks now.

    A proposal may differ: its task receives the one that was approved. So may the assignees: people change
    them by hand, and whoever answered was entitled to. So may the time of a sleep: the first one counts.
    """
    if asked.kind is not WaitKind.HUMAN or not wait.is_human:
        is_other = (wait.kind, wait.topic, wait.match) != (asked.kind, asked.topic, asked.match)
        return "wait_changed" if is_other else None
    is_other_message = wait.message != asked.message
    is_other_schema = canonical(wait.schema) != canonical(asked.schema)
    if is_other_message and is_other_schema:
        return "question_changed"
    if is_other_message:
        return "message_changed"
    if is_other_schema:
        return "schema_changed"
    return None if _satisfies_approval(wait, asked) else "approval_changed"


def _satisfies_approval(wait: WaitRecord, asked: Question) -> bool:
    """Whether the wait is asked, or was answered, as the question has to be approved now.

    An answer may satisfy more than is required now, and a rejection decides alone.
    """
    if wait.state is not WaitState.ANSWERED:
        is_same = (wait.required, wait.self_approval) == (asked.required, asked.self_approval)
        return is_same or wait.state is not WaitState.OPEN
    if wait.decision is Decision.REJECTED or wait.payload is False:
        return True
    is_enough = wait.required >= asked.required
    return is_enough and (asked.self_approval or not _was_answered_by(wait, wait.submitted_by))


def _was_answered_by(wait: WaitRecord, api_key_id: str | None) -> bool:
    """Whether this key has answered or voted."""
    voters = [wait.decided_by, *(vote.by for vote in wait.votes)]
    return api_key_id is not None and any(by is not None and by.api_key_id == api_key_id for by in voters)


def with_kept_answer(wait: WaitRecord, earlier: Sequence[WaitRecord]) -> WaitRecord | None:
    """The new wait of a rerun with the origin's answer to the same question; None if there is none.

    Without self-approval, an answer of whoever has submitted the rerun does not count.
    """
    for each in latest_waits(list(earlier)):
        is_own = not wait.self_approval and _was_answered_by(each, wait.submitted_by)
        is_over = each.state is WaitState.ANSWERED or (each.is_expired and each.kind is WaitKind.SLEEP)
        if is_over and _identity(each) == _identity(wait) and not is_own:
            return structs.replace(
                wait,
                state=each.state,
                decided_at=each.decided_at,
                decided_by=each.decided_by,
                decision=each.decision,
                payload=each.payload,
                note=each.note,
                votes=each.votes,
                taken_from=each.wait_id,
            )
    return None


def _identity(wait: WaitRecord) -> tuple[object, ...]:
    """What has to be equal for an answer to count for another run."""
    # Also who may answer: otherwise it would count for a question that these people were not asked.
    approval = (wait.required, wait.self_approval, frozenset(wait.assignees))
    asked = (wait.kind, wait.topic, canonical(wait.match), wait.message, canonical(wait.schema))
    return wait.node, wait.name, asked, wait.proposal_digest, approval


def unanswered_reason(waits: Sequence[WaitRecord]) -> Reason:
    """Why a run with these unanswered waits has failed."""
    is_withdrawn = any(wait.state is WaitState.WITHDRAWN for wait in waits)
    return Reason.HUMAN_WITHDRAWN if is_withdrawn else Reason.HUMAN_TIMEOUT


def unanswered_text(waits: Sequence[WaitRecord]) -> str:
    """The error of a run whose waits expired or were withdrawn, and how to continue."""
    withdrawn = [_withdrawn(wait) for wait in waits if wait.state is WaitState.WITHDRAWN]
    late = [_late(wait) for wait in waits if wait.state is not WaitState.WITHDRAWN]
    parts = [f"a question was withdrawn: {_listed(withdrawn)}"] if withdrawn else []
    parts += [f"nobody answered in time: {_listed(late)}"] if late else []
    # The dashboard cuts the last sentence off: `withoutApiCall` in ui/src/screens/run/run.ts.
    return f"{'; '.join(parts)}. POST /runs/{waits[0].run_id}/retry asks again"


def _listed(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - _MAX_NAMED} more" if len(texts) > _MAX_NAMED else ""
    return "; ".join(texts[:_MAX_NAMED]) + more


def _late(wait: WaitRecord) -> str:
    deadline = datetime.fromtimestamp(wait.deadline_at, UTC).isoformat(timespec="seconds")
    return f"{_asked(wait)} until {deadline}"


def _withdrawn(wait: WaitRecord) -> str:
    by = wait.decided_by or Actor()
    return f"{_asked(wait)}, withdrawn by {by.label}: {(wait.note or '')[:_SHOWN_CHARS]}"


def _asked(wait: WaitRecord) -> str:
    return f"task {wait.task} asked {wait.message[:_SHOWN_CHARS]!r} ({wait.name})"


def next_wait_id(wait: WaitRecord) -> str:
    """The id of the wait when it is reopened."""
    return wait_id_of(wait.run_id, wait.node, wait.name, wait.arming + 1)


def reopened(wait: WaitRecord, *, at: float, deadline_at: float) -> WaitRecord:
    """The same question, open, with another deadline. Every caller gets the same record."""
    return structs.replace(
        wait,
        wait_id=next_wait_id(wait),
        arming=wait.arming + 1,
        created_at=at,
        deadline_at=deadline_at,
        state=WaitState.OPEN,
        decided_at=None,
        decided_by=None,
        decision=None,
        payload=UNSET,
        note=None,
        decision_id=None,
        asked_again=None,
        votes=[],
        remind_at=None if wait.remind_at is None else at + wait.remind_at - wait.created_at,
        escalate_at=None if wait.escalate_at is None else at + wait.escalate_at - wait.created_at,
        reminded_at=None,
        escalated_at=None,
        taken_from=None,
    )


def deadline_again(wait: WaitRecord, *, at: float) -> float:
    """The deadline of a wait that is opened again: as long as before; of a sleep, the same time."""
    if wait.kind is WaitKind.SLEEP or wait.deadline_at == NO_DEADLINE:
        return wait.deadline_at
    return at + wait.deadline_at - wait.created_at


def due_notice(wait: WaitRecord, *, at: float) -> tuple[WaitRecord, WaitEvent] | None:
    """The wait after its next reminder or escalation, and the event of it; None if none is due."""
    due_at = wait.notice_at
    if due_at is None or not due_at <= at < wait.deadline_at:
        return None
    is_reminder = wait.reminded_at is None and wait.remind_at == due_at
    kind = WaitEventKind.REMINDED if is_reminder else WaitEventKind.ESCALATED
    changes = {"reminded_at": at} if is_reminder else {"escalated_at": at}
    event = structs.replace(event_of(wait, kind), at=at)
    return structs.replace(wait, **changes), event


def reopened_wait(expected: OpenWait, waits: list[WaitRecord], *, at: float) -> WaitRecord | None:
    """A wait that `retry` has named in its run and that is not stored yet, built from the previous one."""
    for wait in waits:
        if next_wait_id(wait) == expected.wait_id:
            deadline_at = NO_DEADLINE if expected.deadline_at is None else expected.deadline_at
            return reopened(wait, at=at, deadline_at=deadline_at)
    return None


def latest_waits(waits: list[WaitRecord]) -> list[WaitRecord]:
    """The latest wait of each question, in the order in which the questions were asked."""
    newest: dict[tuple[str, str], WaitRecord] = {}
    for wait in sorted(waits, key=lambda each: (each.arming, each.created_at)):
        newest[wait.node, wait.name] = wait
    return list(newest.values())


def event_for_state(wait: WaitRecord) -> WaitEvent:
    """The event of the state that the wait is in."""
    why = wait.note if wait.state in (WaitState.CANCELLED, WaitState.WITHDRAWN) else None
    return event_of(wait, _KINDS[wait.state], why=why)


def event_of(wait: WaitRecord, kind: WaitEventKind, *, why: str | None = None) -> WaitEvent:
    """The event of opening or deciding a wait. Every caller gets the same."""
    decided = kind is not WaitEventKind.OPENED
    return WaitEvent(
        event_id=f"{wait.wait_id}.{kind}",
        kind=kind,
        wait_id=wait.wait_id,
        run_id=wait.run_id,
        at=wait.decided_at if decided and wait.decided_at is not None else wait.created_at,
        tenant_id=wait.tenant_id,
        actor=wait.decided_by,
        decision=wait.decision,
        decision_id=wait.decision_id,
        why=why,
    )


def change_event(
    changed: WaitRecord, kind: WaitEventKind, revision: int, *, at: float, by: Actor, why: str | None
) -> WaitEvent:
    """The event of a change of an open wait; the revision that it replaces makes its id unique."""
    is_extended = kind is WaitEventKind.EXTENDED
    return WaitEvent(
        event_id=f"{changed.wait_id}.{kind}.{revision}",
        kind=kind,
        wait_id=changed.wait_id,
        run_id=changed.run_id,
        at=at,
        tenant_id=changed.tenant_id,
        actor=by,
        why=why,
        deadline_at=changed.deadline_at if is_extended else None,
        assignees=None if is_extended else changed.assignees,
    )
