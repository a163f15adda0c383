"""Votes on a wait that several people have to approve.

A vote is stored in the wait. The wait is answered by the first rejection, or by the last approval that it
needs. A key votes once; without API keys people cannot be told apart, and every answer is a vote.
"""

from typing import Any

from msgspec import structs

from pyoco_server.errors import WaitConflict
from pyoco_server.records.waits.wait_models import (
    Actor,
    Decision,
    Vote,
    WaitEvent,
    WaitEventKind,
    WaitRecord,
    WaitState,
)


def with_vote(wait: WaitRecord, vote: Vote) -> WaitRecord:
    """The wait after this answer: decided by it, or open with one vote more."""
    changed = wait if wait.required <= 1 else structs.replace(wait, votes=[*wait.votes, vote])
    is_rejection = vote.decision is Decision.REJECTED or vote.payload is False
    if not is_rejection and changed.approvals < wait.required and wait.required > 1:
        return changed
    return structs.replace(as_answered_by(changed, vote), state=WaitState.ANSWERED)


def as_answered_by(wait: WaitRecord, vote: Vote) -> WaitRecord:
    """The wait as if this vote were its answer."""
    return structs.replace(
        wait,
        decided_at=vote.at,
        decided_by=vote.by,
        payload=vote.payload,
        decision=vote.decision,
        note=vote.note,
        decision_id=vote.decision_id,
    )


def vote_named(wait: WaitRecord, decision_id: str | None, actor: Actor) -> Vote | None:
    """The vote that this key gave under this id: others may choose the same id for votes of their own."""
    if decision_id is None:
        return None
    mine = (vote for vote in wait.votes if vote.by.api_key_id == actor.api_key_id)
    return next((vote for vote in mine if vote.decision_id == decision_id), None)


def check_has_not_voted(wait: WaitRecord, actor: Actor) -> None:
    if actor.api_key_id is not None and any(vote.by.api_key_id == actor.api_key_id for vote in wait.votes):
        detail = f"you have voted; {wait.required - wait.approvals} more approvals of others are needed"
        raise WaitConflict("already_voted", detail)


def vote_event(wait: WaitRecord, vote: Vote, revision: int) -> WaitEvent:
    """Of a vote that leaves the wait open; the revision that it replaces makes its id unique."""
    fields: dict[str, Any] = {"decision": vote.decision, "decision_id": vote.decision_id}
    return WaitEvent(
        event_id=f"{wait.wait_id}.{WaitEventKind.VOTED}.{revision}",
        kind=WaitEventKind.VOTED,
        wait_id=wait.wait_id,
        run_id=wait.run_id,
        at=vote.at,
        tenant_id=wait.tenant_id,
        actor=vote.by,
        **fields,
    )
