"""Large questions, long answers and many waits."""

import json
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from pyoco_server.broker.client.connection import Connection, PayloadTooLarge
from pyoco_server.broker.stores.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.human.answers.answering import Answer, AnswerHandler
from pyoco_server.human.asking import MAX_QUESTION_BYTES, question
from pyoco_server.human.continuation import Continuations
from pyoco_server.records.models import RunStatus
from pyoco_server.records.wait_models import Decision, WaitRecord, WaitState, digest_of
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from tests.integration.human.test_wait_expiry import maintaining
from tests.support.broker.waits_in_bucket import WaitsInBucket
from tests.support.running.gateway import RunningGateway
from tests.support.running.people import ANN
from tests.support.running.waiting_runs import WaitingRun, waiting_run
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually

# More than half of what NATS takes: there is no room for it twice.
LARGE = {"text": "x" * 600_000}
LATE: dict[str, Any] = {"timeout_sec": -1.0}


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(config, sweep_interval_sec=0.1)


async def fails(run: WaitingRun) -> bool:
    return (await run.now()).status is RunStatus.FAILED


async def test_a_large_default_is_the_answer_and_no_other_wait_suffers(connection: Connection) -> None:
    large = await waiting_run(connection, {**LATE, "default": LARGE})
    other = await waiting_run(connection, LATE)
    ended = await waiting_run(connection)
    await ended.becomes(status=RunStatus.CANCELLED)

    async def all_done() -> bool:
        has_more = bool(await large.jobs())
        return has_more and await fails(other) and await ended.states() == ["cancelled"]

    async with maintaining(connection):
        await eventually(all_done, describe="all are dealt with")
    wait = await large.wait()
    assert (wait.state, wait.resolved, wait.answer) == (WaitState.EXPIRED, True, LARGE)


async def test_a_large_proposal_can_be_approved(connection: Connection) -> None:
    run = await waiting_run(connection, {"proposal": LARGE})
    approval = Answer(decision=Decision.APPROVED, digest=digest_of(LARGE), decision_id="d")
    answers = AnswerHandler(connection)
    await answers.respond(run.wait_id, approval, ANYBODY, ANN)
    assert (await run.wait()).answer == {"decision": "approved", "value": LARGE, "note": None}
    assert (await answers.respond(run.wait_id, approval, ANYBODY, ANN)).repeated


async def test_a_wait_that_cannot_be_written_does_not_block_others(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stuck = await waiting_run(connection, LATE)
    other = await waiting_run(connection, {"timeout_sec": 0.5})
    replace_wait = WaitStore.replace

    async def too_large(self: WaitStore, record: WaitRecord, revision: int, **outbox: Any) -> int:
        if record.run_id == stuck.run_id:
            raise PayloadTooLarge("2000000 bytes, the server takes 1048576")
        return await replace_wait(self, record, revision, **outbox)

    monkeypatch.setattr(WaitStore, "replace", too_large)
    async with maintaining(connection) as maintained:
        await eventually(lambda: fails(other), describe="the other one expires")
        await maintained.scans()
    said = [line for line in caplog.records if getattr(line, "wait_id", "") == stuck.wait_id]
    # Once, not in every round; and NATS is not away.
    assert len(said) == 1
    assert "larger than NATS takes" in said[0].getMessage()
    assert "not available" not in said[0].getMessage()
    assert "maintenance of waits failed" not in caplog.text


async def test_a_failing_maintenance_job_does_not_block_others(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(self: WaitsInBucket, now: float, limit: int) -> list[str]:
        raise NatsUnavailable("no answer")

    monkeypatch.setattr(WaitsInBucket, "due", away)
    over, answered = await waiting_run(connection), await waiting_run(connection)
    await over.becomes(status=RunStatus.CANCELLED)
    store = WaitStore(connection)
    stored = await store.get_from_leader(answered.wait_id)
    assert stored is not None
    outcome = structs.replace(stored.record, state=WaitState.ANSWERED, payload=1)
    await Continuations(connection).decide(stored, outcome)

    async def done() -> bool:
        return await over.states() == ["cancelled"] and bool(await answered.jobs())

    async with maintaining(connection) as maintained:
        await maintained.scans()
        await eventually(done, describe="what is left undone is done")


def test_a_question_that_has_no_room_for_its_answer_is_rejected_where_it_is_asked() -> None:
    half = "x" * (MAX_QUESTION_BYTES // 2)
    place: dict[str, Any] = {"node": "ask||1", "task": "ask"}
    assert question("?", proposal=half, **place).proposal == half
    with pytest.raises(ValueError, match=rf"at most {MAX_QUESTION_BYTES} bytes.*reference") as refused:
        question("?", proposal=half, default=half, **place)
    assert f"default {len(half) + 2}" in str(refused.value)


def test_too_large_is_not_reported_as_an_outage() -> None:
    error = PayloadTooLarge("2000000 bytes, the server takes 1048576")
    assert str(error).startswith("A record is larger than NATS takes: 2000000 bytes")
    assert "max_payload" in error.error.cure("en")
    assert error.error.status == 503


async def test_two_hundred_long_questions_come_to_wait_and_are_answered(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(config):
        run_id = await gateway.submit("crowd", params={"chars": 9000})
        run = await gateway.reaches(run_id, "WAITING_HUMAN")
        waits = run["open_waits"]
        assert len({wait["wait_id"] for wait in waits}) == 200
        assert waits[0]["message"] == "?" * 300
        assert set(run["tasks"].values()) == {"WAITING"}
        shown = (await gateway.http.get(f"/waits/{waits[-1]['wait_id']}")).json()
        assert shown["message"] == "?" * 9000
        # Also the last one, of which the snapshot says the least, makes the run go on.
        await AnswerHandler(gateway.inside.connection).respond(
            waits[-1]["wait_id"], Answer(payload=1), ANYBODY, ANN
        )

        async def one_less() -> bool:
            now = (await gateway.http.get(f"/runs/{run_id}")).json()
            return now["status"] == "WAITING_HUMAN" and len(now["open_waits"]) == 199

        await eventually(one_less, describe="it waits for the others")


async def test_a_long_schema_takes_no_room_from_the_tasks(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(config):
        run_id = await gateway.submit("long_schema", params={"size": 500_000})
        run = await gateway.reaches(run_id, "WAITING_HUMAN")
        assert run["tasks"] == {"before": "SUCCEEDED", "ask_with_schema": "WAITING"}
        records = (await gateway.http.get(f"/runs/{run_id}/tasks")).json()
        assert records["task_records"]["before"]["output"] == 1
        [wait] = run["open_waits"]
        assert f"GET /waits/{wait['wait_id']}" in json.loads(run["wait_schema"])["$comment"]
        shown = (await gateway.http.get(f"/waits/{wait['wait_id']}")).json()
        assert len(shown["schema"]["description"]) == 500_000
        too_long = await gateway.ends(await gateway.submit("long_schema", params={"size": 900_000}))
    assert (too_long["status"], too_long["reason"]) == ("FAILED", "execution_error")
    assert "at most 524288 bytes" in too_long["error"]
    assert too_long["tasks"] == {"before": "SUCCEEDED", "ask_with_schema": "FAILED"}
