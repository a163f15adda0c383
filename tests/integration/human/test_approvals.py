"""Waits that several people have to approve, that the submitter may not answer, and groups of keys."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from pyoco_server.auth.key_administration import KeyAdministration
from pyoco_server.broker.client.connection import Connection
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import (
    InvalidAnswer,
    InvalidRequest,
    NotAssigned,
    PyocoError,
    SelfApproval,
    WaitConflict,
    shortened_json,
)
from pyoco_server.records.waits.wait_models import Actor, Decision, digest_of
from pyoco_server.runs.lifecycle.tenancy import ANYBODY, Caller
from pyoco_server.waits.human.answers.answering import Answer, AnswerHandler
from pyoco_server.waits.human.reopen import retry_run
from pyoco_server.waits.human.wait_changes import ChangeRequest, WaitChanges
from tests.support.running.gateway import RunningGateway
from tests.support.running.people import ANN, ANN_KEY, BOB, BOB_KEY
from tests.support.running.tenants import Tenant, a_key, having_tenants
from tests.support.running.waiting_runs import WaitingRun, waiting_run
from tests.support.running.workers import serving_worker

pytestmark = pytest.mark.asyncio(loop_scope="module")

YES_OR_NO = {"type": "boolean"}
PROPOSAL = {"amount": 100}
EVE = Actor(name="eve", api_key_id="key-eve", tenant_id="acme")
EVE_KEY = Caller("acme", "key-eve", sees_all=False)


@pytest.fixture
def connection(shared_connection: Connection) -> Connection:
    return shared_connection


@pytest.fixture
def answers(connection: Connection) -> AnswerHandler:
    return AnswerHandler(connection)


async def asked(connection: Connection, **fields: Any) -> WaitingRun:
    """A run that two people have to approve."""
    given: dict[str, Any] = {"proposal": PROPOSAL, "required": 2, **fields}
    return await waiting_run(connection, given, tenant_id="acme")


def approved(decision_id: str | None = None) -> Answer:
    return Answer(decision=Decision.APPROVED, digest=digest_of(PROPOSAL), decision_id=decision_id)


async def test_the_run_continues_after_the_last_approval(
    connection: Connection, answers: AnswerHandler
) -> None:
    run = await asked(connection)
    first = await answers.respond(run.wait_id, approved("a"), ANN_KEY, ANN)
    assert (first.state, first.approvals, first.required) == ("open", 1, 2)
    wait = await run.wait()
    assert (wait.state, wait.decided_at, wait.decision, wait.decision_id) == ("open", None, None, None)
    assert [vote.by for vote in wait.votes] == [ANN]
    assert await run.jobs() == []

    last = await answers.respond(run.wait_id, approved("b"), BOB_KEY, BOB)
    assert (last.state, last.approvals) == ("answered", 2)
    wait = await run.wait()
    assert (wait.state, wait.decision, wait.decided_by) == ("answered", "approved", BOB)
    assert wait.answer == {"decision": "approved", "value": PROPOSAL, "note": None}
    assert [vote.decision_id for vote in wait.votes] == ["a", "b"]
    assert len(await run.jobs()) == 1
    voted, answered = (await run.events())[1:]
    assert (voted.kind, voted.actor, voted.decision) == ("voted", ANN, "approved")
    assert (answered.kind, answered.actor) == ("answered", BOB)


async def test_the_first_rejection_decides(connection: Connection, answers: AnswerHandler) -> None:
    run = await asked(connection, required=3)
    await answers.respond(run.wait_id, approved(), ANN_KEY, ANN)
    rejected = Answer(decision=Decision.REJECTED, note="too dear")
    assert (await answers.respond(run.wait_id, rejected, BOB_KEY, BOB)).state == "answered"
    wait = await run.wait()
    assert wait.answer == {"decision": "rejected", "value": None, "note": "too dear"}
    assert wait.approvals == 1


async def test_a_yes_or_no_question_counts_every_yes(connection: Connection, answers: AnswerHandler) -> None:
    fields: dict[str, Any] = {"schema": YES_OR_NO, "required": 2}
    yes, no = [await waiting_run(connection, fields, tenant_id="acme") for _ in range(2)]
    for run, second in ((yes, True), (no, False)):
        await answers.respond(run.wait_id, Answer(payload=True), ANN_KEY, ANN)
        assert (await run.wait()).state == "open"
        await answers.respond(run.wait_id, Answer(payload=second), BOB_KEY, BOB)
        assert (await run.wait()).answer is second


async def test_a_key_votes_once(connection: Connection, answers: AnswerHandler) -> None:
    run = await asked(connection)
    first = await answers.respond(run.wait_id, approved("a"), ANN_KEY, ANN)
    before = await run.stored()
    with pytest.raises(WaitConflict, match="1 more approvals of others") as caught:
        await answers.respond(run.wait_id, approved("again"), ANN_KEY, ANN)
    assert caught.value.word == "already_voted"
    repeated = await answers.respond(run.wait_id, approved("a"), ANN_KEY, ANN)
    assert (repeated.repeated, repeated.decided_at, repeated.state) == (True, first.decided_at, "open")
    with pytest.raises(WaitConflict):
        await answers.respond(run.wait_id, Answer(decision=Decision.REJECTED, decision_id="a"), ANN_KEY, ANN)
    assert await run.stored() == before


async def test_two_keys_vote_under_the_same_decision_id(
    connection: Connection, answers: AnswerHandler
) -> None:
    """A program may derive the id from the question, which is the same for both."""
    run = await asked(connection, required=3)
    for caller, actor, approvals in ((ANN_KEY, ANN, 1), (BOB_KEY, BOB, 2)):
        receipt = await answers.respond(run.wait_id, approved("a"), caller, actor)
        assert (receipt.repeated, receipt.approvals) == (False, approvals)
    payload = {"decision": "approved", "digest": digest_of(PROPOSAL)}
    await answers.resume(run.run_id, payload, EVE_KEY, EVE, decision_id="a")
    wait = await run.wait()
    assert (wait.state, [vote.by for vote in wait.votes]) == ("answered", [ANN, BOB, EVE])
    assert (await answers.respond(run.wait_id, approved("a"), BOB_KEY, BOB)).repeated
    late = Caller("acme", "key-late", sees_all=False)
    with pytest.raises(WaitConflict, match="answered by eve"):
        await answers.respond(run.wait_id, approved("a"), late, Actor(name="late", api_key_id="key-late"))


@pytest.mark.parametrize(
    ("assignees", "is_enough"),
    [(["bob"], False), (["ann", "bob"], False), (["bob", "eve"], True), (["group:x"], True), ([], True)],
)
async def test_a_reassigned_wait_can_still_be_decided(
    connection: Connection, answers: AnswerHandler, assignees: list[str], *, is_enough: bool
) -> None:
    """Ann has voted, and two more approvals are required."""
    run = await asked(connection, required=3)
    await answers.respond(run.wait_id, approved(), ANN_KEY, ANN)
    change = WaitChanges(connection).reassign(ChangeRequest(run.wait_id, ANYBODY, ANN), assignees)
    if is_enough:
        assert (await change).assignees == assignees
        return
    with pytest.raises(InvalidRequest) as caught:
        await change
    [problem] = caught.value.problems
    assert (problem.field, problem.message[:19]) == ("assignees", "expected at least 2")
    assert (await run.wait()).assignees == []


@pytest.mark.parametrize("blank", ["  ", "group:"])
async def test_a_wait_is_not_reassigned_to_a_blank_name(connection: Connection, blank: str) -> None:
    run = await asked(connection)
    with pytest.raises(InvalidRequest, match="none of them blank"):
        await WaitChanges(connection).reassign(ChangeRequest(run.wait_id, ANYBODY, ANN), ["bob", blank])
    assert (await run.wait()).assignees == []


async def test_an_early_vote_is_repeated_after_the_decision(
    connection: Connection, answers: AnswerHandler
) -> None:
    run = await asked(connection)
    first = await answers.respond(run.wait_id, approved("a"), ANN_KEY, ANN)
    await answers.respond(run.wait_id, approved("b"), BOB_KEY, BOB)
    again = await answers.respond(run.wait_id, approved("a"), ANN_KEY, ANN)
    assert (again.repeated, again.decision_id, again.decided_at) == (True, "a", first.decided_at)
    payload = {"decision": "approved", "digest": digest_of(PROPOSAL)}
    resumed = await answers.resume(run.run_id, payload, ANN_KEY, ANN, decision_id="a")
    assert resumed == again


async def test_of_many_votes_at_once_each_counts_once(connection: Connection, answers: AnswerHandler) -> None:
    """Ten keys, each twice at the same time; five approvals decide."""
    run = await asked(connection, required=5)
    people = [
        (
            Caller("acme", f"key-{number}", sees_all=False),
            Actor(name=f"p{number}", api_key_id=f"key-{number}"),
        )
        for number in range(10)
    ]
    given = [
        answers.respond(run.wait_id, approved(f"{actor.name}-{time}"), caller, actor)
        for caller, actor in people
        for time in range(2)
    ]
    outcomes = await asyncio.gather(*given, return_exceptions=True)
    assert all(isinstance(each, PyocoError) for each in outcomes if isinstance(each, BaseException)), outcomes
    wait = await run.wait()
    voters = [vote.by.api_key_id for vote in wait.votes]
    assert wait.state == "answered"
    assert len(voters) == len(set(voters)) == 5
    assert sum(not isinstance(each, BaseException) for each in outcomes) == 5
    kinds = await run.kinds()
    assert (kinds.count("voted"), kinds.count("answered")) == (4, 1)
    assert len(await run.jobs()) == 1


async def test_a_proposal_for_several_is_not_edited(connection: Connection, answers: AnswerHandler) -> None:
    run = await asked(connection)
    before = await run.stored()
    with pytest.raises(InvalidAnswer) as caught:
        await answers.respond(
            run.wait_id, Answer(decision=Decision.EDITED, payload={"amount": 1}), ANN_KEY, ANN
        )
    assert "2 people have to approve the same proposal" in caught.value.problems[0].message
    assert await run.stored() == before


async def test_a_retry_needs_all_approvals_again(connection: Connection, answers: AnswerHandler) -> None:
    run = await asked(connection)
    await answers.respond(run.wait_id, approved("a"), ANN_KEY, ANN)
    await run.expires()
    again = await retry_run(connection, run.run_id, ANYBODY, ANN)
    [reopened] = again.open_waits or []
    wait = await run.wait(reopened.wait_id)
    assert (wait.votes, wait.required) == ([], 2)


async def test_without_keys_every_answer_is_a_vote(connection: Connection, answers: AnswerHandler) -> None:
    run = await asked(connection)
    for _ in range(2):
        await answers.respond(run.wait_id, approved(), ANYBODY, Actor(ip="10.0.0.1"))
    assert (await run.wait()).state == "answered"


# Self-approval and groups


async def test_the_submitter_may_not_answer_without_self_approval(
    connection: Connection, answers: AnswerHandler
) -> None:
    fields: dict[str, Any] = {"self_approval": False, "submitted_by": ANN.api_key_id}
    run = await waiting_run(connection, fields, tenant_id="acme")
    with pytest.raises(SelfApproval) as caught:
        await answers.respond(run.wait_id, Answer(payload=1), ANN_KEY, ANN)
    assert caught.value.word == "self_approval"
    assert await run.states() == ["open"]
    [_, refused] = await run.events()
    assert (refused.kind, refused.why) == ("refused", "self_approval")
    await answers.respond(run.wait_id, Answer(payload=1), BOB_KEY, BOB)
    assert await run.states() == ["answered"]


async def test_a_wait_is_not_reassigned_to_nobody_but_the_submitter(connection: Connection) -> None:
    keys = KeyAdministration(connection)

    async def key(name: str) -> str:
        return (await keys.create("globex", name=name, scopes=[], expires_at=None))[0].key_id

    ann, changes = await key("Ann"), WaitChanges(connection)
    fields: dict[str, Any] = {"self_approval": False, "submitted_by": ann, "proposal": 1}
    one, two = [
        await waiting_run(connection, {**fields, "required": required}, tenant_id="globex")
        for required in (1, 2)
    ]
    for run, assignees in ((one, [ann]), (one, ["Ann"]), (one, [ann, "Ann"]), (two, ["Ann", "bob"])):
        before = await run.stored()
        with pytest.raises(InvalidRequest) as caught:
            await changes.reassign(ChangeRequest(run.wait_id, ANYBODY, BOB), assignees)
        [problem] = caught.value.problems
        assert (problem.field, problem.value) == ("assignees", shortened_json(assignees))
        assert "who did not submit the run, or a group, or an empty list" in problem.message
        assert await run.stored() == before
    for assignees in (["Ann", "bob"], ["group:finance"], []):
        await changes.reassign(ChangeRequest(one.wait_id, ANYBODY, BOB), assignees)
    # Another key of that name may answer, until it is revoked.
    other = await key("Ann")
    await changes.reassign(ChangeRequest(one.wait_id, ANYBODY, BOB), ["Ann"])
    await keys.revoke(other)
    with pytest.raises(InvalidRequest):
        await changes.reassign(ChangeRequest(one.wait_id, ANYBODY, BOB), [ann, "Ann"])


async def test_a_group_is_an_assignee(connection: Connection, answers: AnswerHandler) -> None:
    run = await waiting_run(connection, {"assignees": ["group:finance", "bob"]}, tenant_id="acme")
    for caller, actor in (
        (ANN_KEY, ANN),
        (replace(ANN_KEY, groups=frozenset({"sales"})), ANN),
        # A name that looks like a group.
        (EVE_KEY, Actor(name="group:finance", api_key_id="key-eve", tenant_id="acme")),
    ):
        with pytest.raises(NotAssigned):
            await answers.respond(run.wait_id, Answer(payload=1), caller, actor)
    of_finance = replace(EVE_KEY, groups=frozenset({"finance"}))
    await answers.respond(run.wait_id, Answer(payload=1), of_finance, EVE)
    assert (await run.wait()).decided_by == EVE


async def test_votes_are_shown_in_lists_and_in_the_wait(shared_gateway: RunningGateway) -> None:
    gateway = shared_gateway
    fields: dict[str, Any] = {"schema": YES_OR_NO, "required": 2}
    run = await waiting_run(gateway.inside.connection, fields)
    answer = await gateway.http.post(f"/waits/{run.wait_id}/respond", json={"payload": True, "note": "fine"})
    receipt = answer.json()
    assert (receipt["state"], receipt["approvals"], receipt["required"]) == ("open", 1, 2)
    [item] = (await gateway.http.get("/waits", params={"run_id": run.run_id})).json()["items"]
    assert (item["approvals"], item["required"], item["state"]) == (1, 2, "open")
    wait = (await gateway.http.get(f"/waits/{run.wait_id}")).json()
    assert (wait["approvals"], [vote["note"] for vote in wait["votes"]]) == (1, ["fine"])
    assert [event["kind"] for event in wait["events"]] == ["opened", "voted"]


FLOW = """
version: 1
flow: {graph: approve}
tasks:
  approve:
    use: pyoco/human
    inputs:
      message: Pay?
      schema: {type: boolean}
      required: 2
      self_approval: false
      assignees: [group:finance]
"""


async def test_two_of_a_group_approve_what_a_third_has_submitted(shared_config: NatsBackendConfig) -> None:
    """With API keys and a worker."""
    async with AsyncExitStack() as opened:
        [someone] = await opened.enter_async_context(having_tenants(shared_config, "acme"))
        ann, bob, eve = [
            await opened.enter_async_context(a_key(someone, "acme", groups=("finance",))) for _ in range(3)
        ]
        await opened.enter_async_context(serving_worker(someone.inside.config))
        access = await ann.json("/key")
        assert access["groups"] == ["finance"]
        run_id = (await ann.submit_yaml(FLOW)).json()["run_id"]
        run = await ann.reaches(run_id, "WAITING_HUMAN")
        path = f"/waits/{run['open_waits'][0]['wait_id']}/respond"

        async def answered(client: Tenant, payload: bool) -> tuple[int, str | None]:
            answer = await client.http.post(path, json={"payload": payload})
            return answer.status_code, answer.json().get("error")

        assert await answered(someone, True) == (403, "not_assigned")
        assert await answered(ann, True) == (403, "self_approval")
        assert await answered(bob, True) == (200, None)
        assert await answered(bob, True) == (409, "already_voted")
        assert (await ann.json(f"/runs/{run_id}"))["status"] == "WAITING_HUMAN"
        assert await answered(eve, True) == (200, None)
        await ann.reaches(run_id, "COMPLETED")
        wait = await ann.json(path.removesuffix("/respond"))
        voters = [vote["by"]["api_key_id"] for vote in wait["votes"]]
        assert voters == [bob.api_key_id, eve.api_key_id]


async def test_a_flow_yaml_that_counts_what_cannot_be_counted_is_refused(
    shared_gateway: RunningGateway,
) -> None:
    answer = await shared_gateway.submit_yaml(FLOW.replace("{type: boolean}", "{type: string}"))
    assert answer.status_code == 422
    assert "expected a proposal, or schema=" in answer.text
    answer = await shared_gateway.submit_yaml(FLOW.replace("[group:finance]", "[ann]"))
    assert answer.status_code == 422
    assert "expected at least 2 assignees, or a group, or none, since required=2" in answer.text
