"""How a wait ends, and how it is asked again: records out of records, without a broker."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import UNSET, structs

from pyoco_server.human.closing import event_of
from pyoco_server.records.models import OpenWait
from pyoco_server.records.wait_models import (
    Actor,
    Decision,
    WaitEvent,
    WaitEventKind,
    WaitRecord,
    WaitState,
    wait_id_of,
)

# Why most waits are cancelled; `retry` asks those again.
RUN_OVER: Final = "the run is over"

# Of those that nobody answered in time, in the error of their run.
_MOST_NAMED: Final = 10
_SHOWN_CHARS: Final = 200

_KINDS: Final = {
    WaitState.OPEN: WaitEventKind.OPENED,
    WaitState.ANSWERED: WaitEventKind.ANSWERED,
    WaitState.EXPIRED: WaitEventKind.EXPIRED,
    WaitState.CANCELLED: WaitEventKind.CANCELLED,
}


def answered(
    wait: WaitRecord,
    *,
    at: float,
    by: Actor,
    payload: Any,
    decision: Decision | None,
    note: str | None,
    decision_id: str | None,
) -> WaitRecord:
    return structs.replace(
        wait,
        state=WaitState.ANSWERED,
        decided_at=at,
        decided_by=by,
        payload=payload,
        decision=decision,
        note=note,
        decision_id=decision_id,
    )


def expired(wait: WaitRecord, *, at: float) -> WaitRecord:
    """Nobody has answered in time: what the task said for this case is the answer, if it said anything."""
    return structs.replace(wait, state=WaitState.EXPIRED, decided_at=at)


def failed_its_run(wait: WaitRecord) -> bool:
    """Whether nobody has answered in time, and there is no answer for this case."""
    return wait.state is WaitState.EXPIRED and not wait.resolved


def expiry_text(waits: Sequence[WaitRecord]) -> str:
    """The error of a run that nobody answered in time, with what to do about it."""
    named = "; ".join(map(_unanswered, waits[:_MOST_NAMED]))
    more = f"; and {len(waits) - _MOST_NAMED} more" if len(waits) > _MOST_NAMED else ""
    return f"nobody answered in time: {named}{more}. POST /runs/{waits[0].run_id}/retry asks again"


def _unanswered(wait: WaitRecord) -> str:
    deadline = datetime.fromtimestamp(wait.deadline_at, UTC).isoformat(timespec="seconds")
    return f"task {wait.task} asked {wait.message[:_SHOWN_CHARS]!r} ({wait.name}) until {deadline}"


def next_arming_id(wait: WaitRecord) -> str:
    """The id that the same question has when it is asked the next time."""
    return wait_id_of(wait.run_id, wait.node, wait.name, wait.arming + 1)


def asked_again(wait: WaitRecord, *, at: float, deadline_at: float) -> WaitRecord:
    """The same question, open, with another deadline; the same record whoever makes it."""
    return structs.replace(
        wait,
        wait_id=next_arming_id(wait),
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
    )


def asked_anew(wanted: OpenWait, waits: list[WaitRecord], *, at: float) -> WaitRecord | None:
    """The wait that a run has been given by `retry` and that is not stored yet, made from the one before."""
    for wait in waits:
        if next_arming_id(wait) == wanted.wait_id:
            return asked_again(wait, at=at, deadline_at=wanted.deadline_at)
    return None


def last_asked(waits: list[WaitRecord]) -> list[WaitRecord]:
    """Of each question its last wait, in the order in which they were first asked."""
    newest: dict[tuple[str, str], WaitRecord] = {}
    for wait in sorted(waits, key=lambda each: (each.arming, each.created_at)):
        newest[wait.node, wait.name] = wait
    return list(newest.values())


def told_of(wait: WaitRecord) -> WaitEvent:
    """What is told of the state that the wait is in."""
    why = wait.note if wait.state is WaitState.CANCELLED else None
    return event_of(wait, _KINDS[wait.state], why=why)
