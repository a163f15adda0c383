"""The form of an answer, and whether it refers to the proposal that was shown."""

from typing import Any, NoReturn

import msgspec
from msgspec import UNSET, Struct

from pyoco_server.errors import FieldProblem, InvalidAnswer, ProposalChanged, shortened
from pyoco_server.records.wait_models import Decision, WaitRecord, canonical


class Answer(Struct, kw_only=True, omit_defaults=True):
    """What a person answers. A payload of `null` is not the same as no payload."""

    payload: Any = UNSET
    # These two only for a wait with a proposal; the digest is that of the proposal that was shown.
    decision: Decision | None = None
    digest: str | None = None
    note: str | None = None
    # Chosen by the caller, to repeat the answer safely.
    decision_id: str | None = None


class _ProposalAnswer(Struct, kw_only=True, forbid_unknown_fields=True):
    """The payload of `resume` for a wait with a proposal."""

    decision: Decision
    value: Any = UNSET
    note: str | None = None
    digest: str | None = None


def answer_from_payload(wait: WaitRecord, payload: Any, decision_id: str | None) -> Answer:
    if wait.proposal is UNSET:
        return Answer(payload=payload, decision_id=decision_id)
    try:
        about = msgspec.convert(payload, _ProposalAnswer)
    except msgspec.ValidationError as error:
        expected = 'expected {"decision": "approved" | "edited" | "rejected", "value", "note", "digest"}'
        _reject("payload", f"{error}; {expected}", payload)
    return Answer(
        payload=about.value,
        decision=about.decision,
        digest=about.digest,
        note=about.note,
        decision_id=decision_id,
    )


def is_same_answer(wait: WaitRecord, answer: Answer) -> bool:
    """Whether this repeats the answer that the wait has, with the same decision_id."""
    if answer.decision_id is None or answer.decision_id != wait.decision_id:
        return False
    if answer.payload is UNSET or wait.payload is UNSET:
        same_payload = answer.payload is wait.payload
    else:
        same_payload = canonical(answer.payload) == canonical(wait.payload)
    same_decision = answer.decision is wait.decision and answer.note == wait.note
    return same_payload and same_decision and _is_about(wait, answer)


def _is_about(wait: WaitRecord, answer: Answer) -> bool:
    """Whether it answers the proposal of this wait. Only an approval requires the digest."""
    is_optional = answer.decision is not Decision.APPROVED
    return answer.digest == wait.proposal_digest or (answer.digest is None and is_optional)


def check_answer_form(wait: WaitRecord, answer: Answer) -> None:
    """InvalidAnswer or ProposalChanged say what is wrong; the schema is checked elsewhere."""
    if wait.proposal is UNSET:
        _check_plain(answer)
    else:
        _check_decision(answer)
        _check_digest(wait, answer)


def _check_plain(answer: Answer) -> None:
    if answer.decision is not None:
        _reject("decision", "this wait has no proposal to decide on; answer with a payload", answer.decision)
    if answer.digest is not None:
        _reject("digest", "this wait has no proposal; leave the digest out", answer.digest)
    if answer.payload is UNSET:
        _reject("payload", "this is missing; null, false, 0 and '' are answers as well")


def _check_decision(answer: Answer) -> None:
    match answer.decision:
        case None:
            _reject("decision", "this wait has a proposal: expected approved, edited or rejected")
        case Decision.EDITED:
            if answer.payload is UNSET:
                _reject("payload", "an edit needs the value that replaces the proposal")
        case _:
            if answer.payload is not UNSET:
                hint = f"'{answer.decision}' takes no payload; use 'edited' to answer with another value"
                _reject("payload", hint, answer.payload)


def _check_digest(wait: WaitRecord, answer: Answer) -> None:
    if answer.digest is None:
        if answer.decision is Decision.APPROVED:
            raise ProposalChanged("an approval says which proposal it is of: send its proposal_digest")
    elif answer.digest != wait.proposal_digest:
        raise ProposalChanged(f"the digest of the proposal is not {shortened(answer.digest)}")


def _reject(field: str, message: str, value: Any = UNSET) -> NoReturn:
    shown = None if value is UNSET else shortened(value)
    raise InvalidAnswer(problems=[FieldProblem(field, message, value=shown)])
