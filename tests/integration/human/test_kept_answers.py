"""Reruns that keep the answers of people."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from msgspec import structs

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_client import AsyncPyocoHttpClient, PyocoHttpError
from pyoco_server.records.runs.run_models import new_run_id
from pyoco_server.records.waits.wait_models import Actor, WaitRecord, WaitState
from pyoco_server.waits.wait_transitions import with_kept_answer
from pyoco_server.worker import PyocoNatsWorker
from tests.support.broker.stored_waits import a_wait
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import LIMIT_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASKING = """
version: 1
flow: {graph: approve}
tasks:
  approve:
    use: pyoco/human
    inputs: {message: "Pay?", schema: {type: boolean}}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker(
    shared_config: NatsBackendConfig, shared_gateway: RunningGateway
) -> AsyncIterator[PyocoNatsWorker]:
    async with serving_worker(shared_config) as worker:
        yield worker


async def rerun(gateway: RunningGateway, run_id: str, **body: Any) -> str:
    answer = await gateway.http.post(f"/runs/{run_id}/rerun", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["run_id"])


async def answered_run(gateway: RunningGateway, **fields: Any) -> tuple[str, str]:
    """A completed run with one question, and its wait."""
    run_id = (await gateway.submit_yaml(ASKING, **fields)).json()["run_id"]
    wait_id = (await gateway.reaches(run_id, "WAITING_HUMAN"))["open_waits"][0]["wait_id"]
    await gateway.http.post(f"/waits/{wait_id}/respond", json={"payload": True, "note": "fine"})
    await gateway.reaches(run_id, "COMPLETED")
    return run_id, wait_id


async def test_a_rerun_keeps_the_answers_of_its_origin_if_it_is_asked_to(
    shared_gateway: RunningGateway, worker: PyocoNatsWorker
) -> None:
    gateway = shared_gateway
    origin, asked = await answered_run(gateway)
    kept = await rerun(gateway, origin, keep_answers=True)
    await gateway.reaches(kept, "COMPLETED")
    query = {"run_id": kept, "state": "answered"}
    [item] = (await gateway.http.get("/waits", params=query)).json()["items"]
    wait = (await gateway.http.get(f"/waits/{item['wait_id']}")).json()
    assert (wait["payload"], wait["note"], wait["taken_from"]) == (True, "fine", asked)
    [event] = wait["events"]
    assert (event["kind"], event["why"]) == ("reused", asked)

    await gateway.reaches(await rerun(gateway, origin), "WAITING_HUMAN")


async def test_the_client_reruns_one_run_or_many_with_their_answers(
    shared_gateway: RunningGateway, worker: PyocoNatsWorker
) -> None:
    gateway = shared_gateway
    origins = [(await answered_run(gateway, flow_name="kept"))[0] for _ in range(2)]
    async with AsyncPyocoHttpClient(str(gateway.http.base_url)) as client:
        again = await client.rerun(origins[0], keep_answers=True)
        assert (await client.wait(again["run_id"], LIMIT_SEC))["status"] == "COMPLETED"

        counted = await client.bulk_rerun({"flow": "kept"}, keep_answers=True, dry_run=True)
        assert counted["matched"] == 3
        with pytest.raises(PyocoHttpError, match="not that of a dry run with this filter"):
            await client.bulk_rerun({"flow": "kept"}, token=counted["token"] or "")
        started = await client.bulk_rerun({"flow": "kept"}, keep_answers=True, token=counted["token"] or "")
        operation = started["operation"]
        assert operation is not None
        assert operation["keep_answers"] is True

        async def all_completed() -> bool:
            runs = await client.list_runs(flow="kept")
            return len(runs) == 6 and {run["status"] for run in runs} == {"COMPLETED"}

        await eventually(all_completed, describe="the reruns have the answers")


def answered(**fields: Any) -> WaitRecord:
    wait = a_wait(new_run_id(), schema={"type": "boolean"}, **fields)
    by = Actor(name="ann", api_key_id="key-ann")
    return structs.replace(wait, state=WaitState.ANSWERED, decided_at=1.0, decided_by=by, payload=True)


def asked_again(earlier: WaitRecord, **changed: Any) -> WaitRecord | None:
    fields = {"schema": earlier.schema, "self_approval": earlier.self_approval, **changed}
    return with_kept_answer(a_wait(new_run_id(), **fields), [earlier])


async def test_only_the_answer_to_the_same_question_is_kept() -> None:
    kept = asked_again(answered())
    assert kept is not None
    assert kept.answer is True
    changes: tuple[dict[str, Any], ...] = (
        {"message": "another?"},
        {"schema": {"type": "string"}},
        {"proposal": 1},
        {"node": "check||2"},
        {"required": 2},
        {"self_approval": False},
        {"assignees": ["the board"]},
    )
    for change in changes:
        assert asked_again(answered(), **change) is None, change


@pytest.mark.parametrize(
    "state", [WaitState.EXPIRED, WaitState.WITHDRAWN, WaitState.CANCELLED, WaitState.OPEN]
)
async def test_what_no_person_has_answered_is_asked_again(state: WaitState) -> None:
    assert asked_again(structs.replace(answered(default=1), state=state), default=1) is None


async def test_nobody_keeps_their_own_approval() -> None:
    earlier = answered(self_approval=False)
    assert asked_again(earlier, submitted_by="key-ann") is None
    assert asked_again(earlier, submitted_by="key-bob") is not None
