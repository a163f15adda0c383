"""Whether an answer has the form of one, and is about the proposal that was shown."""

from typing import Any, NoReturn

import msgspec
from msgspec import UNSET, Struct

from pyoco_server.errors import FieldProblem, InvalidAnswer, ProposalChanged, shortened
from pyoco_server.records.wait_models import Decision, WaitRecord, canonical


class Answer(Struct, kw_only=True, omit_defaults=True):
    """What a person answers. `null` is an answer, and not the same as none."""

    payload: Any = UNSET
    # Of a wait with a proposal.
    decision: Decision | None = None
    # Of the proposal that the person saw.
    digest: str | None = None
    note: str | None = None
    # The caller's own name for this answer.
    decision_id: str | None = None


class _AboutProposal(Struct, kw_only=True, forbid_unknown_fields=True):
    """The payload of `resume` for a wait with a proposal."""

    decision: Decision
    value: Any = UNSET
    note: str | None = None
    digest: str | None = None


def answer_in(wait: WaitRecord, payload: Any, decision_id: str | None) -> Answer:
    """What `resume` was given, as an answer to this wait."""
    if wait.proposal is UNSET:
        return Answer(payload=payload, decision_id=decision_id)
    try:
        about = msgspec.convert(payload, _AboutProposal)
    except msgspec.ValidationError as error:
        wanted = 'wanted {"decision": "approved" | "edited" | "rejected", "value", "note", "digest"}'
        _refuse("payload", f"{error}; {wanted}", payload)
    return Answer(
        payload=about.value,
        decision=about.decision,
        digest=about.digest,
        note=about.note,
        decision_id=decision_id,
    )


def is_same(wait: WaitRecord, answer: Answer) -> bool:
    """Whether this is the answer that the wait has got, under the same name."""
    if answer.decision_id is None or answer.decision_id != wait.decision_id:
        return False
    if answer.payload is UNSET or wait.payload is UNSET:
        same_payload = answer.payload is wait.payload
    else:
        same_payload = canonical(answer.payload) == canonical(wait.payload)
    same_words = answer.decision is wait.decision and answer.note == wait.note
    return same_payload and same_words and _is_about(wait, answer)


def _is_about(wait: WaitRecord, answer: Answer) -> bool:
    """Whether it is an answer to the proposal of this wait. Only an approval has to say so."""
    may_leave_out = answer.decision is not Decision.APPROVED
    return answer.digest == wait.proposal_digest or (answer.digest is None and may_leave_out)


def check_form(wait: WaitRecord, answer: Answer) -> None:
    """InvalidAnswer or ProposalChanged say what is wrong, whatever the schema wants."""
    if wait.proposal is UNSET:
        _check_plain(answer)
    else:
        _check_decision(answer)
        _check_digest(wait, answer)


def _check_plain(answer: Answer) -> None:
    if answer.decision is not None:
        _refuse("decision", "this wait has no proposal to decide on; answer with a payload", answer.decision)
    if answer.digest is not None:
        _refuse("digest", "this wait has no proposal; leave the digest out", answer.digest)
    if answer.payload is UNSET:
        _refuse("payload", "this is missing; null, false, 0 and '' are answers as well")


def _check_decision(answer: Answer) -> None:
    match answer.decision:
        case None:
            _refuse("decision", "this wait has a proposal: wanted approved, edited or rejected")
        case Decision.EDITED:
            if answer.payload is UNSET:
                _refuse("payload", "an edit needs what is to be in place of the proposal")
        case _:
            if answer.payload is not UNSET:
                wanted = f"'{answer.decision}' takes no payload; use 'edited' to answer with another value"
                _refuse("payload", wanted, answer.payload)


def _check_digest(wait: WaitRecord, answer: Answer) -> None:
    if answer.digest is None:
        if answer.decision is Decision.APPROVED:
            raise ProposalChanged("an approval says which proposal it is of: send its proposal_digest")
    elif answer.digest != wait.proposal_digest:
        raise ProposalChanged(f"the digest of the proposal is not {shortened(answer.digest)}")


def _refuse(field: str, message: str, value: Any = UNSET) -> NoReturn:
    shown = None if value is UNSET else shortened(value)
    raise InvalidAnswer(problems=[FieldProblem(field, message, value=shown)])
