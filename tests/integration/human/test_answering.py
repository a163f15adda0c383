"""Answering waits: accepted, repeated, late and invalid answers."""

import asyncio
import time
from typing import Any

import msgspec
import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.run_store import RunStore
from pyoco_server.broker.stores.wait_events import WaitEvents
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import (
    InvalidAnswer,
    NatsUnavailable,
    NotAssigned,
    PyocoError,
    WaitConflict,
    WaitNotFound,
)
from pyoco_server.human.answers.answering import Answer, AnswerHandler, Receipt
from pyoco_server.human.continuation import Continuations
from pyoco_server.records.models import RunStatus, new_run_id
from pyoco_server.records.wait_models import Actor, Decision, WaitState
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from tests.support.broker.connections import connected
from tests.support.running.people import ANN, ANN_KEY, BOB, BOB_KEY, STRANGER
from tests.support.running.waiting_runs import WaitingRun, jobs_in_queue, waiting_run

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


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
    assert await run.now() == run.snapshot, "its next owner writes the run, not who answers"
    [_, event] = await run.events()
    assert (event.kind, event.actor, event.at) == ("answered", ANN, receipt.decided_at)
    assert event.event_id == f"{run.wait_id}.answered"


@pytest.mark.parametrize("value", [None, False, 0, "", {}, [], "x", [1, {"a": None}]])
async def test_any_json_value_is_an_answer(
    connection: Connection, answers: AnswerHandler, value: Any
) -> None:
    run = await waiting_run(connection)
    await answers.respond(run.wait_id, payload(value), ANYBODY, ANN)
    wait = await run.wait()
    assert wait.resolved
    assert (wait.payload, wait.answer) == (value, value)


async def test_an_answer_before_the_suspension_is_complete_counts(
    connection: Connection, answers: AnswerHandler
) -> None:
    """Its owner finds it before it suspends."""
    run = await waiting_run(connection, suspended=False)
    await answers.respond(run.wait_id, payload(1), ANYBODY, ANN)
    assert (await run.wait()).state is WaitState.ANSWERED
    assert await run.jobs() == []


async def test_each_of_ten_answers_continues_the_run(connection: Connection, answers: AnswerHandler) -> None:
    """The same job each time, until it is claimed."""
    run = await waiting_run(connection, *({} for _ in range(10)))
    for wait in (run.waits[7], run.waits[2]):
        await answers.respond(wait.wait_id, payload(1), ANYBODY, ANN)
    assert (await run.states()).count("open") == 8
    assert len(await run.jobs()) == 1


async def test_the_flow_yaml_goes_with_the_job(connection: Connection, answers: AnswerHandler) -> None:
    run = await waiting_run(connection, workflow_yaml_sha256="0" * 64)
    mender = answers._continuations._mender
    await mender.journal.keep_source(run.run_id, "version: 1")
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


async def test_the_receipt_is_repeated_after_the_run_has_ended(
    connection: Connection, answers: AnswerHandler
) -> None:
    run = await waiting_run(connection)
    click = payload(1, decision_id="click-1")
    first = await answers.respond(run.wait_id, click, ANYBODY, ANN)
    await run.becomes(status=RunStatus.COMPLETED)
    second = await answers.respond(run.wait_id, click, ANYBODY, ANN)
    assert _without_repeated(second) == _without_repeated(first)


async def test_keys_in_another_order_and_other_forms_of_a_character_are_the_same_answer(
    connection: Connection, answers: AnswerHandler
) -> None:
    run = await waiting_run(connection)
    one, same = {"a": 1, "e\u0301": "\u00e9", "f": 2}, {"f": 2, "\u00e9": "e\u0301", "a": 1}
    await answers.respond(run.wait_id, payload(one, decision_id="d"), ANYBODY, ANN)
    assert (await answers.respond(run.wait_id, payload(same, decision_id="d"), ANYBODY, ANN)).repeated


@pytest.mark.parametrize(
    "other",
    [
        payload(2, decision_id="d"),
        payload(True, decision_id="d"),
        payload(None, decision_id="d"),
        payload(1, decision_id="d", note="and a word"),
        payload(1, decision_id="e"),
        payload(1),
    ],
)
async def test_another_answer_is_told_who_decided(
    connection: Connection, answers: AnswerHandler, other: Answer
) -> None:
    run = await waiting_run(connection)
    await answers.respond(run.wait_id, payload(1, decision_id="d"), ANYBODY, ANN)
    error = await rejected(answers, run, other, WaitConflict)
    assert error.word == "already_decided"
    moment = time.gmtime((await run.wait()).decided_at)
    assert error.detail == f"it was answered by ann at {time.strftime('%Y-%m-%dT%H:%M:%SZ', moment)}"


async def test_answers_without_an_id_are_never_the_same(
    connection: Connection, answers: AnswerHandler
) -> None:
    run = await waiting_run(connection)
    await answers.respond(run.wait_id, payload(1), ANYBODY, ANN)
    assert (await rejected(answers, run, payload(1), WaitConflict)).word == "already_decided"


async def test_two_answers_on_two_gateways_have_one_winner(config: NatsBackendConfig) -> None:
    async with connected(config) as one, connected(config) as other:
        gateways = [AnswerHandler(one), AnswerHandler(other)]
        for _ in range(20):
            run = await waiting_run(one)
            outcomes = await asyncio.gather(
                *(
                    gateway.respond(run.wait_id, payload(number, decision_id=f"d{number}"), ANYBODY, ANN)
                    for number, gateway in enumerate(gateways)
                ),
                return_exceptions=True,
            )
            [winner] = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Receipt)]
            loser = outcomes[1 - winner]
            assert isinstance(loser, WaitConflict)
            assert loser.word == "already_decided"
            assert (await run.wait()).payload == winner
            assert len(await run.jobs()) == 1
            assert sorted(await run.kinds()) == ["answered", "opened", "refused"]


# What does not count


async def test_an_invalid_answer_leaves_the_wait_open(connection: Connection, answers: AnswerHandler) -> None:
    run = await waiting_run(connection, {"schema": NUMBER})
    error = await rejected(answers, run, payload({"n": "x"}), InvalidAnswer)
    assert [problem.field for problem in error.problems] == ["payload.n"]
    error = await rejected(answers, run, payload({}), InvalidAnswer)
    assert [problem.field for problem in error.problems] == ["payload.n"]
    error = await rejected(answers, run, payload(None), InvalidAnswer)
    assert [problem.field for problem in error.problems] == ["payload"]
    await answers.respond(run.wait_id, payload({"n": 1}), ANYBODY, ANN)


async def test_an_invalid_schema_rejects_every_answer(connection: Connection, answers: AnswerHandler) -> None:
    run = await waiting_run(connection, {"schema": {"type": "strin"}})
    error = await rejected(answers, run, payload("x"), InvalidAnswer)
    assert "the schema of this wait" in str(error.problems[0])


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        (Answer(), "payload"),
        (Answer(note="no"), "payload"),
        (Answer(decision=Decision.APPROVED), "decision"),
        (Answer(payload=1, digest="0"), "digest"),
    ],
)
async def test_a_wait_without_a_proposal_takes_a_payload(
    connection: Connection, answers: AnswerHandler, answer: Answer, field: str
) -> None:
    run = await waiting_run(connection)
    error = await rejected(answers, run, answer, InvalidAnswer)
    assert [problem.field for problem in error.problems] == [field]


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
        patched.setattr(WaitEvents, "publish", away)
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
        patched.setattr(answers._continuations, "decide", away)
        with pytest.raises(NatsUnavailable):
            await answers.respond(run.wait_id, payload(1), ANYBODY, ANN)
    assert (await run.wait()).state is WaitState.OPEN
    assert await run.kinds() == ["opened"], "nobody was refused"
    assert await jobs_in_queue(connection) == []


def _without_repeated(receipt: Receipt) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(receipt)
    fields.pop("repeated")
    return fields
