"""Large questions, long answers and many waits."""

import json
from dataclasses import replace
from typing import Any

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.waits.wait_models import Decision, WaitState, digest_of
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.waits.human.answers.answering import Answer, AnswerHandler
from tests.integration.waits.test_wait_expiry import maintaining
from tests.support.running.gateway import RunningGateway
from tests.support.running.people import ANN
from tests.support.running.waiting_runs import waiting_run
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually

# More than half of what NATS takes: there is no room for it twice.
LARGE = {"text": "x" * 600_000}
LATE: dict[str, Any] = {"timeout_sec": -1.0}


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(config, sweep_interval_sec=0.1)


async def test_a_large_default_is_the_answer_and_a_large_proposal_can_be_approved(
    connection: Connection,
) -> None:
    large = await waiting_run(connection, {**LATE, "default": LARGE})
    other = await waiting_run(connection, LATE)
    ended = await waiting_run(connection)
    await ended.becomes(status=RunStatus.CANCELLED)
    async with maintaining(connection):
        await large.has_jobs()
        await other.ends()
        await ended.has_states("cancelled")
    wait = await large.wait()
    assert (wait.state, wait.resolved, wait.answer) == (WaitState.EXPIRED, True, LARGE)

    run = await waiting_run(connection, {"proposal": LARGE})
    approval = Answer(decision=Decision.APPROVED, digest=digest_of(LARGE), decision_id="d")
    answers = AnswerHandler(connection)
    await answers.respond(run.wait_id, approval, ANYBODY, ANN)
    assert (await run.wait()).answer == {"decision": "approved", "value": LARGE, "note": None}
    assert (await answers.respond(run.wait_id, approval, ANYBODY, ANN)).repeated


async def test_many_long_questions_and_long_schemas_leave_room_for_the_tasks(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(config):
        await _two_hundred_long_questions(gateway)
        await _long_schemas(gateway)


async def _two_hundred_long_questions(gateway: RunningGateway) -> None:
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


async def _long_schemas(gateway: RunningGateway) -> None:
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
