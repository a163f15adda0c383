"""`resume`: answering the only open wait of a run."""

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.errors import (
    InvalidAnswer,
    NotAssigned,
    RunNotFound,
    WaitConflict,
    WaitExpired,
    WaitExpiredForGood,
)
from pyoco_server.records.runs.run_models import RunStatus, new_run_id
from pyoco_server.records.waits.wait_models import digest_of
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.waits.human.answers.answering import Answer, AnswerHandler
from pyoco_server.waits.human.reopen import retry_run
from pyoco_server.waits.wait_transitions import next_wait_id
from tests.integration.human.test_answering import NUMBER, PROPOSAL
from tests.support.broker.stored_runs import snapshot
from tests.support.running.people import ANN, ANN_KEY, BOB, BOB_KEY, STRANGER
from tests.support.running.waiting_runs import waiting_run

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def connection(shared_connection: Connection) -> Connection:
    return shared_connection


@pytest.fixture
def answers(connection: Connection) -> AnswerHandler:
    return AnswerHandler(connection)


async def test_resume_answers_the_one_open_wait(connection: Connection, answers: AnswerHandler) -> None:
    run = await waiting_run(connection, {"schema": NUMBER}, tenant_id="acme")
    with pytest.raises(InvalidAnswer):
        await answers.resume(run.run_id, {"n": "x"}, ANN_KEY, ANN)
    receipt = await answers.resume(run.run_id, {"n": 1}, ANN_KEY, ANN, decision_id="d")
    assert (receipt.run_id, receipt.wait_id, receipt.decision_id) == (run.run_id, run.wait_id, "d")
    assert (await run.wait()).payload == {"n": 1}
    assert len(await run.jobs()) == 1
    assert (await answers.resume(run.run_id, {"n": 1}, ANN_KEY, ANN, decision_id="d")).repeated
    await run.becomes(status=RunStatus.COMPLETED)
    assert (await answers.resume(run.run_id, {"n": 1}, ANN_KEY, ANN, decision_id="d")).repeated
    with pytest.raises(WaitConflict) as caught:
        await answers.resume(run.run_id, {"n": 2}, ANN_KEY, ANN, decision_id="d")
    assert caught.value.word == "already_decided"


async def test_resume_finds_no_run_of_another_tenant(connection: Connection, answers: AnswerHandler) -> None:
    run = await waiting_run(connection, tenant_id="acme")
    for run_id, caller in ((run.run_id, STRANGER), (new_run_id(), ANN_KEY), ("x.*", ANN_KEY)):
        with pytest.raises(RunNotFound):
            await answers.resume(run_id, 1, caller, ANN)


async def test_resume_obeys_the_assignees(connection: Connection, answers: AnswerHandler) -> None:
    run = await waiting_run(connection, {"assignees": ["ann"]}, tenant_id="acme")
    with pytest.raises(NotAssigned):
        await answers.resume(run.run_id, 1, BOB_KEY, BOB)
    await answers.resume(run.run_id, 1, ANN_KEY, ANN)


async def test_resume_does_not_guess_between_waits(connection: Connection, answers: AnswerHandler) -> None:
    run = await waiting_run(connection, {}, {})
    with pytest.raises(WaitConflict) as caught:
        await answers.resume(run.run_id, 1, ANYBODY, ANN)
    assert caught.value.word == "ambiguous_wait"
    assert str(caught.value).startswith("The run waits for several answers: ")
    for wait in run.waits:
        assert wait.wait_id in caught.value.detail
    await answers.respond(run.waits[0].wait_id, Answer(payload=1), ANYBODY, ANN)
    assert (await answers.resume(run.run_id, 2, ANYBODY, ANN)).wait_id == run.waits[1].wait_id


async def test_resume_of_a_run_that_does_not_wait_is_an_invalid_state(
    connection: Connection, answers: AnswerHandler
) -> None:
    never = snapshot()
    await RunStore(connection).create(never)
    ending = await waiting_run(connection)
    await ending.becomes(status=RunStatus.CANCELLING)
    answered = await waiting_run(connection)
    await answers.resume(answered.run_id, 1, ANYBODY, ANN)
    for run_id in (never.run_id, ending.run_id, answered.run_id):
        with pytest.raises(WaitConflict, match="Run is not waiting_human") as caught:
            await answers.resume(run_id, 1, ANYBODY, ANN)
        assert caught.value.word == "invalid_state"


async def test_resume_answers_a_run_whose_other_tasks_still_run(
    connection: Connection, answers: AnswerHandler
) -> None:
    run = await waiting_run(connection, suspended=False)
    assert (await answers.resume(run.run_id, 1, ANYBODY, ANN)).wait_id == run.wait_id
    assert await run.states() == ["answered"]
    # Its worker looks for answers when nothing else of it can run.
    assert await run.jobs() == []


async def test_resume_of_an_expired_run_is_expired(connection: Connection, answers: AnswerHandler) -> None:
    run = await waiting_run(connection, {"timeout_sec": -1})
    for _ in range(2):
        with pytest.raises(WaitExpired):
            await answers.resume(run.run_id, 1, ANYBODY, ANN)
    assert (await run.now()).reason == "human_timeout"


async def test_a_late_answer_is_told_to_retry_only_where_a_retry_asks_again(
    connection: Connection, answers: AnswerHandler
) -> None:
    defaulted = await waiting_run(connection, {"timeout_sec": -1, "default": 1})
    cancelled, deleted, again, failed = [await waiting_run(connection, {"timeout_sec": -1}) for _ in range(4)]
    for run in (defaulted, cancelled, deleted, again, failed):
        with pytest.raises(WaitExpired):
            await answers.respond(run.wait_id, Answer(payload=1), ANYBODY, ANN)
    await cancelled.becomes(status=RunStatus.CANCELLED, reason=None)
    stored = await RunStore(connection).get_from_leader(deleted.run_id)
    assert stored is not None
    await RunStore(connection).delete(deleted.run_id, revision=stored.revision)
    await retry_run(connection, again.run_id, ANYBODY, ANN)
    cures = {}
    for name, run in {
        "default": defaulted,
        "cancelled": cancelled,
        "deleted": deleted,
        "again": again,
    }.items():
        with pytest.raises(WaitExpiredForGood) as caught:
            await answers.respond(run.wait_id, Answer(payload=1), ANYBODY, ANN)
        cures[name] = caught.value.detail.partition("; ")[2]
        assert "/retry" not in caught.value.error.cure_en
    assert cures == {
        "default": "the default was used as the answer",
        "cancelled": "its run is CANCELLED",
        "deleted": "its run was deleted",
        "again": f"it was asked again, as {next_wait_id(await again.wait())}",
    }
    with pytest.raises(WaitExpired) as late:
        await answers.respond(failed.wait_id, Answer(payload=1), ANYBODY, ANN)
    assert "/retry" in late.value.error.cure_en


async def test_resume_takes_the_decision_on_a_proposal_as_payload(
    connection: Connection, answers: AnswerHandler
) -> None:
    approved, edited, rejected = [await waiting_run(connection, {"proposal": PROPOSAL}) for _ in range(3)]
    for wrong in (None, "approved", {}, {"decision": "maybe"}, {"decision": "edited", "payload": 1}):
        with pytest.raises(InvalidAnswer):
            await answers.resume(approved.run_id, wrong, ANYBODY, ANN)
    with pytest.raises(InvalidAnswer) as caught:
        await answers.resume(approved.run_id, {"decision": "approved"}, ANYBODY, ANN)
    assert [problem.field for problem in caught.value.problems] == ["payload.digest"]
    # The proposal has not changed.
    assert "proposal_changed" not in [event.why for event in await approved.events()]
    await answers.resume(
        approved.run_id, {"decision": "approved", "digest": digest_of(PROPOSAL)}, ANYBODY, ANN
    )
    await answers.resume(edited.run_id, {"decision": "edited", "value": None}, ANYBODY, ANN)
    await answers.resume(rejected.run_id, {"decision": "rejected", "note": "no"}, ANYBODY, ANN)
    given = [(await run.wait()).answer for run in (approved, edited, rejected)]
    assert given == [
        {"decision": "approved", "value": PROPOSAL, "note": None},
        {"decision": "edited", "value": None, "note": None},
        {"decision": "rejected", "value": None, "note": "no"},
    ]
