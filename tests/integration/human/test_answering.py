"""Answering waits: accepted, repeated, late and invalid answers; proposals."""

import asyncio
import json
import time
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.runs.run_store import RunStore, StoredRun
from pyoco_server.broker.stores.waits.wait_event_log import WaitEventLog
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import (
    InvalidAnswer,
    NatsUnavailable,
    NotAssigned,
    ProposalChanged,
    PyocoError,
    WaitConflict,
    WaitNotFound,
)
from pyoco_server.records.runs.run_models import DeliveryId, RunStatus, TaskStatus, new_run_id
from pyoco_server.records.waits.wait_models import Actor, Decision, WaitState, digest_of
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.runs.lifecycle.unowned_runs import UnownedRuns
from pyoco_server.runs.lifecycle.waiting_state import open_waits
from pyoco_server.waits.continuation import Continuations
from pyoco_server.waits.human.answers.answering import Answer, AnswerHandler, AnswerReceipt
from tests.support.broker.connections import connected
from tests.support.running.people import ANN, ANN_KEY, BOB, BOB_KEY, STRANGER
from tests.support.running.waiting_runs import WaitingRun, waiting_run

pytestmark = pytest.mark.asyncio(loop_scope="module")

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
PROPOSAL = {"amount": 100, "to": "Zoë"}


@pytest.fixture
def connection(shared_connection: Connection) -> Connection:
    return shared_connection


@pytest.fixture
def answers(connection: Connection) -> AnswerHandler:
    return AnswerHandler(connection)


def payload(value: Any, **fields: Any) -> Answer:
    return Answer(payload=value, **fields)


async def rejected(
    answers: AnswerHandler, run: WaitingRun, answer: Answer, kind: type[PyocoError]
) -> PyocoError:
    """The error; and nothing has changed."""
    before = (await run.now(), await run.wait(), await run.jobs())
    with pytest.raises(kind) as caught:
        await answers.respond(run.wait_id, answer, ANYBODY, ANN)
    assert (await run.now(), await run.wait(), await run.jobs()) == before
    return caught.value


EDIT_WITH_TEXT = Answer(decision=Decision.EDITED, payload={"n": "x"})


# What counts


async def test_an_answer_is_stored_and_published_and_continues_the_run(
    connection: Connection, answers: AnswerHandler
) -> None:
    run = await waiting_run(connection, {"schema": NUMBER}, tenant_id="acme")
    began = time.time()
    receipt = await answers.respond(run.wait_id, payload({"n": 1}, note="fine"), ANN_KEY, ANN)

    assert (receipt.wait_id, receipt.run_id, receipt.repeated) == (run.wait_id, run.run_id, False)
    assert began <= receipt.decided_at <= time.time()
    wait = await run.wait()
    assert (wait.state, wait.payload, wait.note, wait.decided_by) == ("answered", {"n": 1}, "fine", ANN)
    [job] = await run.jobs()
    assert job.generation == run.snapshot.generation == 1
    now = await run.now()
    assert (now.status, now.generation, now.delivery) == (RunStatus.PENDING, 1, None)
    assert (now.open_waits, now.wait_message, now.wait_schema, now.wait_deadline_at) == ([], None, None, None)
    assert now.tasks == {"approve": TaskStatus.PENDING}
    assert now.waiting_since is None
    [_, event] = await run.events()
    assert (event.kind, event.actor, event.at) == ("answered", ANN, receipt.decided_at)
    assert event.event_id == f"{run.wait_id}.answered"


async def test_an_answer_before_the_suspension_is_complete_counts(
    connection: Connection, answers: AnswerHandler
) -> None:
    """Its owner finds it before it suspends."""
    run = await waiting_run(connection, suspended=False)
    await answers.respond(run.wait_id, payload(1), ANYBODY, ANN)
    assert (await run.wait()).state is WaitState.ANSWERED
    assert await run.jobs() == []


async def test_an_answer_removes_only_its_wait_from_the_run(
    connection: Connection, answers: AnswerHandler
) -> None:
    run = await waiting_run(connection, {}, {"schema": NUMBER}, {})
    first, second, third = run.waits
    await answers.respond(first.wait_id, payload(1), ANYBODY, ANN)
    now = await run.now()
    assert [each.wait_id for each in now.open_waits or []] == [second.wait_id, third.wait_id]
    assert (now.status, now.wait_message, now.wait_deadline_at) == (
        RunStatus.PENDING,
        second.message,
        second.deadline_at,
    )
    assert json.loads(now.wait_schema or "") == NUMBER
    assert list(now.tasks.values()) == [TaskStatus.PENDING, TaskStatus.WAITING, TaskStatus.WAITING]
    await answers.respond(third.wait_id, payload(1), ANYBODY, ANN)
    # It is the only one left, and the run is in the queue.
    await answers.resume(run.run_id, {"n": 1}, ANYBODY, ANN)
    now = await run.now()
    assert (now.status, now.open_waits, now.wait_message) == (RunStatus.PENDING, [], None)
    assert len(await run.jobs()) == 1


async def test_an_answer_removes_its_wait_from_a_running_run(
    connection: Connection, answers: AnswerHandler
) -> None:
    run = await waiting_run(connection, suspended=False)
    await run.becomes(delivery=DeliveryId(7, 1), worker_id="w", open_waits=open_waits(run.waits))
    await answers.respond(run.wait_id, payload(1), ANYBODY, ANN)
    now = await run.now()
    assert (now.status, now.delivery, now.open_waits) == (RunStatus.RUNNING, (7, 1), [])
    assert await run.jobs() == []


async def test_a_worker_that_claims_the_run_wins_over_its_update(
    connection: Connection, answers: AnswerHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await waiting_run(connection)
    publish = UnownedRuns.publish_continuation

    async def publish_and_claim(self: UnownedRuns, stored: StoredRun) -> None:
        await publish(self, stored)
        await run.becomes(
            status=RunStatus.RUNNING, delivery=DeliveryId(9, 1), open_waits=[], wait_message=None
        )

    monkeypatch.setattr(UnownedRuns, "publish_continuation", publish_and_claim)
    await answers.respond(run.wait_id, payload(1), ANYBODY, ANN)
    now = await run.now()
    assert (now.status, now.delivery) == (RunStatus.RUNNING, (9, 1))


async def test_each_of_ten_answers_continues_the_run(connection: Connection, answers: AnswerHandler) -> None:
    """The same job each time, until it is claimed."""
    run = await waiting_run(connection, *({} for _ in range(10)))
    for wait in (run.waits[7], run.waits[2]):
        await answers.respond(wait.wait_id, payload(1), ANYBODY, ANN)
    assert (await run.states()).count("open") == 8
    assert len(await run.jobs()) == 1


async def test_the_flow_yaml_goes_with_the_job(connection: Connection, answers: AnswerHandler) -> None:
    run = await waiting_run(connection, workflow_yaml_sha256=sha256(b"version: 1").hexdigest())
    await answers._continuations._unowned_runs.journal.keep_document("default", run.run_id, b"version: 1")
    await answers.respond(run.wait_id, payload(1), ANYBODY, ANN)
    [job] = await run.jobs()
    assert job.workflow_yaml == "version: 1"


async def test_a_run_whose_job_cannot_be_made_fails_instead_of_waiting_for_ever(
    connection: Connection, answers: AnswerHandler
) -> None:
    run = await waiting_run(connection, {}, {}, workflow_yaml_sha256="0" * 64)
    await answers.respond(run.waits[0].wait_id, payload(1), ANYBODY, ANN)
    now = await run.now()
    assert (now.status, now.reason) == (RunStatus.FAILED, "invalid_job")


# The same answer again


async def test_a_double_click_has_one_continuation_and_one_receipt(
    connection: Connection, answers: AnswerHandler
) -> None:
    run = await waiting_run(connection)
    click = payload({"n": 1}, decision_id="click-1")
    first, second = await asyncio.gather(
        *(answers.respond(run.wait_id, click, ANYBODY, ANN) for _ in range(2))
    )
    later = await answers.respond(run.wait_id, click, ANYBODY, BOB)
    assert sorted([first.repeated, second.repeated]) == [False, True]
    assert later.repeated
    assert _without_repeated(first) == _without_repeated(second) == _without_repeated(later)
    assert len(await run.jobs()) == 1
    assert await run.kinds() == ["opened", "answered"]


async def test_another_answer_is_rejected_with_who_decided(
    connection: Connection, answers: AnswerHandler
) -> None:
    run = await waiting_run(connection)
    await answers.respond(run.wait_id, payload(1, decision_id="d"), ANYBODY, ANN)
    error = await rejected(answers, run, payload(2, decision_id="d"), WaitConflict)
    assert error.word == "already_decided"
    moment = time.gmtime((await run.wait()).decided_at)
    assert error.detail == f"it was answered by ann at {time.strftime('%Y-%m-%dT%H:%M:%SZ', moment)}"


async def test_two_answers_on_two_gateways_have_one_winner(
    shared_config: NatsBackendConfig, connection: Connection
) -> None:
    async with connected(shared_config) as other:
        gateways = [AnswerHandler(connection), AnswerHandler(other)]
        for _ in range(20):
            run = await waiting_run(connection)
            outcomes = await asyncio.gather(
                *(
                    gateway.respond(run.wait_id, payload(number, decision_id=f"d{number}"), ANYBODY, ANN)
                    for number, gateway in enumerate(gateways)
                ),
                return_exceptions=True,
            )
            [winner] = [
                number for number, outcome in enumerate(outcomes) if isinstance(outcome, AnswerReceipt)
            ]
            loser = outcomes[1 - winner]
            assert isinstance(loser, WaitConflict)
            assert loser.word == "already_decided"
            assert (await run.wait()).payload == winner
            assert len(await run.jobs()) == 1
            assert sorted(await run.kinds()) == ["answered", "opened", "refused"]


# Proposals


async def test_a_proposal_is_approved_as_it_was_shown(connection: Connection, answers: AnswerHandler) -> None:
    run = await waiting_run(connection, {"proposal": PROPOSAL})
    await rejected(answers, run, Answer(decision=Decision.APPROVED, digest="0" * 64), ProposalChanged)
    shown = digest_of({"to": "Zoe\u0308", "amount": 100})
    approval = Answer(decision=Decision.APPROVED, digest=shown, decision_id="d")
    receipt = await answers.respond(run.wait_id, approval, ANYBODY, ANN)
    assert receipt.decision is Decision.APPROVED
    wait = await run.wait()
    assert wait.answer == {"decision": "approved", "value": PROPOSAL, "note": None}
    # A task gets a plain text, whatever it does with it.
    assert type(wait.answer["decision"]) is str
    assert (await answers.respond(run.wait_id, approval, ANYBODY, ANN)).repeated
    [_, _, event] = await run.events()
    assert event.decision is Decision.APPROVED


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        (Answer(decision=Decision.EDITED, payload={"n": 2}), {"n": 2}),
        # The schema is for answers that have a value.
        (Answer(decision=Decision.REJECTED, note="too much", decision_id="d"), None),
    ],
)
async def test_a_proposal_is_edited_or_rejected(
    connection: Connection, answers: AnswerHandler, answer: Answer, value: Any
) -> None:
    run = await waiting_run(connection, {"proposal": {"n": 1}, "schema": NUMBER})
    await answers.respond(run.wait_id, answer, ANYBODY, ANN)
    assert (await run.wait()).answer == {"decision": answer.decision, "value": value, "note": answer.note}


# What does not count


@pytest.mark.parametrize(
    ("wait", "answer", "field"),
    [
        ({"schema": NUMBER}, payload({"n": "x"}), "payload.n"),
        ({"schema": NUMBER}, payload({}), "payload.n"),
        ({"schema": NUMBER}, payload(None), "payload"),
        ({"schema": NUMBER, "proposal": {"n": 1}}, EDIT_WITH_TEXT, "payload.n"),
        ({"schema": {"type": "strin"}}, payload("x"), ""),
        ({}, Answer(), "payload"),
    ],
    ids=["wrong type", "missing field", "no object", "edit of a proposal", "invalid schema", "no payload"],
)
async def test_an_invalid_answer_leaves_the_wait_open(
    connection: Connection, answers: AnswerHandler, wait: dict[str, Any], answer: Answer, field: str
) -> None:
    run = await waiting_run(connection, wait)
    error = await rejected(answers, run, answer, InvalidAnswer)
    assert [problem.field for problem in error.problems] == [field]
    assert ("the schema of this wait" in str(error.problems[0])) is (field == "")


async def test_an_answer_that_nats_does_not_take_leaves_the_wait_open(
    connection: Connection, answers: AnswerHandler
) -> None:
    run = await waiting_run(connection)
    error = await rejected(answers, run, payload("x" * 2_000_000), InvalidAnswer)
    assert "too large" in str(error.problems[0])


async def test_unknown_waits_and_waits_of_others_are_the_same_404(
    connection: Connection, answers: AnswerHandler
) -> None:
    run = await waiting_run(connection, tenant_id="acme")
    another_run_s = f"{new_run_id()}.{run.wait_id.partition('.')[2]}"
    unknown = f"{run.run_id}.{'0' * 16}"
    told = set()
    for wait_id, caller in (
        (unknown, ANN_KEY),
        (another_run_s, ANN_KEY),
        (run.wait_id, STRANGER),
        (f"{run.run_id}.*", ANN_KEY),
        (">", ANN_KEY),
        ("", ANN_KEY),
        (run.wait_id + "\n", ANN_KEY),
    ):
        with pytest.raises(WaitNotFound) as caught:
            await answers.respond(wait_id, payload(1), caller, ANN)
        told.add(caught.value.detail.replace(repr(wait_id), "…"))
    assert told == {"there is no wait …"}
    assert await run.kinds() == ["opened"]


async def test_only_an_assignee_may_answer_with_keys(connection: Connection, answers: AnswerHandler) -> None:
    by_id, by_name, off = [
        await waiting_run(connection, {"assignees": assignees}, tenant_id="acme")
        for assignees in (["key-ann"], ["x", "ann"], ["ann"])
    ]
    for run in (by_id, by_name):
        with pytest.raises(NotAssigned):
            await answers.respond(run.wait_id, payload(1), BOB_KEY, BOB)
        [_, event] = await run.events()
        assert (event.kind, event.why, event.actor) == ("refused", "not_assigned", BOB)
        await answers.respond(run.wait_id, payload(1), ANN_KEY, ANN)
        # What became of it is not for them either.
        with pytest.raises(NotAssigned):
            await answers.respond(run.wait_id, payload(1), BOB_KEY, BOB)
    await answers.respond(off.wait_id, payload(1), ANYBODY, Actor(name="whoever"))


@pytest.mark.parametrize(
    "status", [RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.CANCELLING]
)
async def test_a_late_answer_revives_nothing(
    connection: Connection, answers: AnswerHandler, status: RunStatus
) -> None:
    run = await waiting_run(connection)
    await run.becomes(status=status)
    error = await rejected(answers, run, payload(1), WaitConflict)
    assert error.word == "invalid_state"
    assert status in error.detail


async def test_a_wait_of_a_deleted_run_takes_no_answer(
    connection: Connection, answers: AnswerHandler
) -> None:
    run = await waiting_run(connection)
    store = RunStore(connection)
    stored = await store.get_from_leader(run.run_id)
    assert stored is not None
    await store.delete(run.run_id, revision=stored.revision)
    with pytest.raises(WaitConflict, match="gone"):
        await answers.respond(run.wait_id, payload(1), ANYBODY, ANN)


async def test_a_cancelled_wait_takes_no_answer(connection: Connection, answers: AnswerHandler) -> None:
    run = await waiting_run(connection)
    await run.becomes(status=RunStatus.CANCELLED)
    await Continuations(connection).close_waits(run.run_id)
    error = await rejected(answers, run, payload(1), WaitConflict)
    assert (error.word, "the run is over" in error.detail) == ("invalid_state", True)


async def test_each_attempt_that_lost_is_recorded(connection: Connection, answers: AnswerHandler) -> None:
    run = await waiting_run(connection, {"schema": NUMBER})
    await rejected(answers, run, payload("x", decision_id="d1"), InvalidAnswer)
    await answers.respond(run.wait_id, payload({"n": 1}), ANYBODY, ANN)
    for _ in range(2):
        with pytest.raises(WaitConflict):
            await answers.respond(run.wait_id, payload({"n": 2}, decision_id="d2"), ANYBODY, BOB)
    refusals = [event for event in await run.events() if event.kind == "refused"]
    assert [(event.why, event.decision_id) for event in refusals] == [
        ("invalid_answer", "d1"),
        ("already_decided", "d2"),
        ("already_decided", "d2"),
    ]
    assert [event.actor for event in refusals] == [ANN, BOB, BOB]


# When NATS is away in between


async def test_a_decision_counts_when_nothing_of_what_follows_can_be_done(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def away(*args: Any, **kwargs: Any) -> None:
        raise NatsUnavailable("NATS is away")

    answers = AnswerHandler(connection)
    run = await waiting_run(connection)
    click = payload(1, decision_id="d")
    with monkeypatch.context() as patched:
        patched.setattr(WaitEventLog, "publish", away)
        await rejected(answers, run, Answer(), InvalidAnswer)
        assert "is lost" in caplog.text
        patched.setattr(Continuations, "continue_run", away)
        receipt = await answers.respond(run.wait_id, click, ANYBODY, ANN)
    assert not receipt.repeated
    assert (await run.jobs(), await run.kinds()) == ([], ["opened"])
    assert "its run will be continued later" in caplog.text
    # Whoever asks again has it done.
    await answers.respond(run.wait_id, click, ANYBODY, ANN)
    assert len(await run.jobs()) == 1


async def test_when_nats_is_unreachable_nothing_is_decided(
    connection: Connection, answers: AnswerHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await waiting_run(connection)

    async def away(*args: Any, **kwargs: Any) -> None:
        raise connection.unavailable()

    with monkeypatch.context() as patched:
        patched.setattr(answers._continuations, "write_transition", away)
        with pytest.raises(NatsUnavailable):
            await answers.respond(run.wait_id, payload(1), ANYBODY, ANN)
    assert (await run.wait()).state is WaitState.OPEN
    assert await run.kinds() == ["opened"], "nobody was refused"
    assert await run.jobs() == []


def _without_repeated(receipt: AnswerReceipt) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(receipt)
    fields.pop("repeated")
    return fields
