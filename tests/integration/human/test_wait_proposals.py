"""Proposals: approved, edited or rejected."""

import pytest
from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.errors import InvalidAnswer, ProposalChanged, WaitConflict
from pyoco_server.human.answers.answering import Answer, AnswerHandler
from pyoco_server.records.wait_models import Decision, digest_of
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from tests.integration.human.test_answering import NUMBER, rejected
from tests.support.running.people import ANN
from tests.support.running.waiting_runs import waiting_run

PROPOSAL = {"amount": 100, "to": "Zoë"}


@pytest.fixture
def answers(connection: Connection) -> AnswerHandler:
    return AnswerHandler(connection)


async def test_a_proposal_is_approved_as_it_was_shown(connection: Connection, answers: AnswerHandler) -> None:
    run = await waiting_run(connection, {"proposal": PROPOSAL})
    shown = digest_of({"to": "Zoe\u0308", "amount": 100})
    approval = Answer(decision=Decision.APPROVED, digest=shown, decision_id="d")
    receipt = await answers.respond(run.wait_id, approval, ANYBODY, ANN)
    assert receipt.decision is Decision.APPROVED
    wait = await run.wait()
    assert wait.answer == {"decision": "approved", "value": PROPOSAL, "note": None}
    # A task gets a plain text, whatever it does with it.
    assert type(wait.answer["decision"]) is str
    assert (await answers.respond(run.wait_id, approval, ANYBODY, ANN)).repeated
    [_, event] = await run.events()
    assert event.decision is Decision.APPROVED


@pytest.mark.parametrize("digest", [None, "0" * 64])
async def test_an_approval_of_something_else_is_another_answer(
    connection: Connection, answers: AnswerHandler, digest: str | None
) -> None:
    run = await waiting_run(connection, {"proposal": PROPOSAL})
    approval = Answer(decision=Decision.APPROVED, digest=digest_of(PROPOSAL), decision_id="d")
    await answers.respond(run.wait_id, approval, ANYBODY, ANN)
    with pytest.raises(WaitConflict) as caught:
        await answers.respond(run.wait_id, structs.replace(approval, digest=digest), ANYBODY, ANN)
    assert caught.value.word == "already_decided"


async def test_a_rejection_may_leave_the_digest_out_when_it_is_repeated(
    connection: Connection, answers: AnswerHandler
) -> None:
    run = await waiting_run(connection, {"proposal": PROPOSAL})
    rejection = Answer(decision=Decision.REJECTED, digest=digest_of(PROPOSAL), decision_id="d")
    await answers.respond(run.wait_id, rejection, ANYBODY, ANN)
    assert (
        await answers.respond(run.wait_id, structs.replace(rejection, digest=None), ANYBODY, ANN)
    ).repeated
    with pytest.raises(WaitConflict):
        await answers.respond(run.wait_id, structs.replace(rejection, digest="0" * 64), ANYBODY, ANN)


@pytest.mark.parametrize("digest", [None, "0" * 64, digest_of({**PROPOSAL, "amount": 1000})])
async def test_nothing_is_approved_that_was_not_shown(
    connection: Connection, answers: AnswerHandler, digest: str | None
) -> None:
    run = await waiting_run(connection, {"proposal": PROPOSAL})
    await rejected(answers, run, Answer(decision=Decision.APPROVED, digest=digest), ProposalChanged)
    if digest is not None:
        edit = Answer(decision=Decision.EDITED, payload=1, digest=digest)
        await rejected(answers, run, edit, ProposalChanged)


async def test_a_proposal_is_edited_within_its_schema(connection: Connection, answers: AnswerHandler) -> None:
    run = await waiting_run(connection, {"proposal": {"n": 1}, "schema": NUMBER})
    wrong = Answer(decision=Decision.EDITED, payload={"n": "x"})
    assert [each.field for each in (await rejected(answers, run, wrong, InvalidAnswer)).problems] == [
        "payload.n"
    ]
    await answers.respond(run.wait_id, Answer(decision=Decision.EDITED, payload={"n": 2}), ANYBODY, ANN)
    assert (await run.wait()).answer == {"decision": "edited", "value": {"n": 2}, "note": None}


async def test_a_proposal_is_rejected_with_a_note(connection: Connection, answers: AnswerHandler) -> None:
    run = await waiting_run(connection, {"proposal": None, "schema": NUMBER})
    no = Answer(decision=Decision.REJECTED, note="too much", decision_id="d")
    await answers.respond(run.wait_id, no, ANYBODY, ANN)
    assert (await run.wait()).answer == {"decision": "rejected", "value": None, "note": "too much"}
    assert (await answers.respond(run.wait_id, no, ANYBODY, ANN)).repeated
    for other in (structs.replace(no, note="another"), structs.replace(no, decision=Decision.APPROVED)):
        assert (await rejected(answers, run, other, WaitConflict)).word == "already_decided"


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        (Answer(payload=1), "decision"),
        (Answer(decision=Decision.EDITED), "payload"),
        (Answer(decision=Decision.APPROVED, payload=1, digest=digest_of(PROPOSAL)), "payload"),
        (Answer(decision=Decision.REJECTED, payload=1), "payload"),
    ],
)
async def test_a_proposal_takes_a_decision(
    connection: Connection, answers: AnswerHandler, answer: Answer, field: str
) -> None:
    run = await waiting_run(connection, {"proposal": PROPOSAL})
    error = await rejected(answers, run, answer, InvalidAnswer)
    assert [problem.field for problem in error.problems] == [field]
