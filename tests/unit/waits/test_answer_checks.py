"""The form of an answer, and when two answers are the same."""

from typing import Any

import pytest
from msgspec import UNSET, structs

from pyoco_server.errors import InvalidAnswer, ProposalChanged
from pyoco_server.records.runs.run_models import new_run_id
from pyoco_server.records.waits.wait_models import Decision, WaitRecord, WaitState, digest_of
from pyoco_server.waits.human.answers.answering import Answer, check_answer_form, is_same_answer
from tests.support.broker.stored_waits import a_wait

PROPOSAL = {"amount": 100, "to": "Zoë"}
DIGEST = digest_of(PROPOSAL)
OTHER_DIGEST = digest_of({**PROPOSAL, "amount": 1000})
APPROVAL = Answer(decision=Decision.APPROVED, digest=DIGEST, decision_id="d")
REJECTION = Answer(decision=Decision.REJECTED, digest=DIGEST, note="too much", decision_id="d")


def answered(answer: Answer, **fields: Any) -> WaitRecord:
    """A wait that has this answer."""
    return structs.replace(
        a_wait(new_run_id(), **fields),
        state=WaitState.ANSWERED,
        payload=answer.payload,
        decision=answer.decision,
        note=answer.note,
        decision_id=answer.decision_id,
    )


@pytest.mark.parametrize("payload", [None, False, 0, "", {}, [], "x", [1, {"a": None}]])
def test_any_json_value_answers_a_wait_without_a_proposal(payload: Any) -> None:
    check_answer_form(a_wait(new_run_id()), Answer(payload=payload))


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (Answer(), "payload"),
        (Answer(note="no"), "payload"),
        (Answer(decision=Decision.APPROVED), "decision"),
        (Answer(payload=1, digest="0"), "digest"),
    ],
)
def test_a_wait_without_a_proposal_takes_a_payload(given: Answer, field: str) -> None:
    with pytest.raises(InvalidAnswer) as caught:
        check_answer_form(a_wait(new_run_id()), given)
    assert [problem.field for problem in caught.value.problems] == [field]


@pytest.mark.parametrize(
    "given",
    [
        APPROVAL,
        Answer(decision=Decision.APPROVED, digest=digest_of({"to": "Zoe\u0308", "amount": 100})),
        Answer(decision=Decision.EDITED, payload=None),
        REJECTION,
        Answer(decision=Decision.REJECTED),
    ],
)
def test_a_proposal_is_approved_edited_or_rejected(given: Answer) -> None:
    check_answer_form(a_wait(new_run_id(), proposal=PROPOSAL), given)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (Answer(payload=1), "decision"),
        (Answer(decision=Decision.EDITED), "payload"),
        (Answer(decision=Decision.APPROVED, payload=1, digest=DIGEST), "payload"),
        (Answer(decision=Decision.REJECTED, payload=1), "payload"),
        (Answer(decision=Decision.APPROVED), "digest"),
    ],
)
def test_a_proposal_takes_a_decision(given: Answer, field: str) -> None:
    with pytest.raises(InvalidAnswer) as caught:
        check_answer_form(a_wait(new_run_id(), proposal=PROPOSAL), given)
    assert [problem.field for problem in caught.value.problems] == [field]


@pytest.mark.parametrize(
    "given",
    [
        *(Answer(decision=Decision.APPROVED, digest=digest) for digest in ("0" * 64, OTHER_DIGEST)),
        *(Answer(decision=Decision.EDITED, payload=1, digest=digest) for digest in ("0" * 64, OTHER_DIGEST)),
    ],
)
def test_nothing_is_approved_that_was_not_shown(given: Answer) -> None:
    with pytest.raises(ProposalChanged):
        check_answer_form(a_wait(new_run_id(), proposal=PROPOSAL), given)


ONE = Answer(payload=1, decision_id="d")


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (ONE, ONE, True),
        (ONE, structs.replace(ONE, payload=2), False),
        (ONE, structs.replace(ONE, payload=True), False),
        (ONE, structs.replace(ONE, payload=None), False),
        (ONE, structs.replace(ONE, payload=UNSET), False),
        (ONE, structs.replace(ONE, note="and a word"), False),
        (ONE, structs.replace(ONE, decision_id="e"), False),
        (ONE, structs.replace(ONE, decision_id=None), False),
        (Answer(payload=1), Answer(payload=1), False),
        (
            Answer(payload={"a": 1, "e\u0301": "\u00e9", "f": 2}, decision_id="d"),
            Answer(payload={"f": 2, "\u00e9": "e\u0301", "a": 1}, decision_id="d"),
            True,
        ),
    ],
)
def test_an_answer_is_the_same_if_its_id_and_its_content_are(
    first: Answer, second: Answer, is_same: bool
) -> None:
    assert is_same_answer(answered(first), second) is is_same


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (APPROVAL, APPROVAL, True),
        (APPROVAL, structs.replace(APPROVAL, digest=None), False),
        (APPROVAL, structs.replace(APPROVAL, digest="0" * 64), False),
        (REJECTION, REJECTION, True),
        (REJECTION, structs.replace(REJECTION, digest=None), True),
        (REJECTION, structs.replace(REJECTION, digest="0" * 64), False),
        (REJECTION, structs.replace(REJECTION, note="another"), False),
        (REJECTION, structs.replace(REJECTION, decision=Decision.APPROVED), False),
    ],
)
def test_a_repeated_decision_is_about_the_same_proposal(first: Answer, second: Answer, is_same: bool) -> None:
    assert is_same_answer(answered(first, proposal=PROPOSAL), second) is is_same
