"""Two gateways: one run per delivery or event, whichever of them receives it, and the same hooks at once."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
import pytest_asyncio

from pyoco_server.config import NatsBackendConfig
from pyoco_server.triggers import overlap_slots
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.hook_senders import SECRETS_KEY, a_hook
from tests.support.running.workflow_events import put_action, save_template, started, summary

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROUNDS = 200


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateways(shared_config: NatsBackendConfig) -> AsyncIterator[tuple[RunningGateway, RunningGateway]]:
    async with AsyncExitStack() as opened:
        found = [
            await opened.enter_async_context(
                running_gateway(
                    replace(
                        shared_config,
                        secrets_keys=SECRETS_KEY,
                        index_dir=f"{shared_config.index_dir}-{number}",
                    )
                )
            )
            for number in (1, 2)
        ]
        yield found[0], found[1]


async def run_count(gateway: RunningGateway, hook_id: str) -> int:
    return await runs_of(gateway, f"event:hook:{hook_id}")


async def runs_of(gateway: RunningGateway, cause: str) -> int:
    query = {"cause": cause, "total": "true", "limit": "1"}
    return int((await gateway.http.get("/runs", params=query)).json()["total"])


async def test_the_same_delivery_at_both_at_the_same_moment_starts_one_run(
    gateways: tuple[RunningGateway, RunningGateway],
) -> None:
    one, other = gateways
    hook = await a_hook(one.http, "github")
    for number in range(ROUNDS):
        delivery_id = f"d{number}"
        answers = await asyncio.gather(
            hook.send({"n": number}, delivery_id), hook.send({"n": number}, delivery_id, http=other.http)
        )
        assert [answer.status_code for answer in answers] == [202, 202]
        assert len({answer.json()["run_id"] for answer in answers}) == 1
        assert sorted(answer.json()["duplicate"] for answer in answers) == [False, True]
    assert await run_count(one, hook.hook_id) == ROUNDS


async def test_the_same_event_at_both_at_the_same_moment_starts_one_run(
    gateways: tuple[RunningGateway, RunningGateway],
) -> None:
    one, other = gateways
    await put_action(one)
    await save_template(one, "twice", year=2204, month=1)
    for number in range(ROUNDS):
        event = {"template_id": "twice", "idempotency_key": f"k{number}", "payload": number}
        first, second = await asyncio.gather(*(started(gateway, **event) for gateway in gateways))
        assert first["run_id"] == second["run_id"]
        assert sorted([first["duplicate"], second["duplicate"]]) == [False, True]
    month = await summary(other, "2204-01")
    assert (month["by_status"]["success"], month["by_status"]["skipped"]) == (ROUNDS, ROUNDS)
    assert await runs_of(one, "event:template:twice") == ROUNDS


@pytest.mark.parametrize("overlap", ["skip", "reject"])
async def test_different_deliveries_at_the_same_moment_do_not_overlap(
    gateways: tuple[RunningGateway, RunningGateway], overlap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine it may take long until the first one has stored its run.
    monkeypatch.setattr(overlap_slots, "MAX_LOOKS", sys.maxsize)
    one, other = gateways
    hook = await a_hook(one.http, overlap=overlap)
    answers = await asyncio.gather(
        *(hook.send(delivery_id=f"d{n}", http=(one, other)[n % 2].http) for n in range(20))
    )
    started = [answer.json()["run_id"] for answer in answers if answer.status_code == 202]
    assert len(started) == 1
    refused = {"skip": 200, "reject": 409}[overlap]
    assert {answer.status_code for answer in answers} == {202, refused}
    assert await run_count(other, hook.hook_id) == 1


async def test_a_new_hook_a_new_secret_and_a_deletion_count_at_once_at_the_other(
    gateways: tuple[RunningGateway, RunningGateway],
) -> None:
    one, other = gateways
    for _ in range(20):
        hook = await a_hook(one.http, "hmac")
        assert (await hook.send(http=other.http)).status_code == 202
        made = (await one.http.post(f"/hooks/{hook.hook_id}/rotate")).json()
        assert (await replace(hook, secret=made["secret"]).send(http=other.http)).status_code == 202
        await one.http.delete(f"/hooks/{hook.hook_id}")
        listed = await other.http.get("/hooks", params={"q": hook.hook_id})
        assert listed.json()["total"] == 0
        assert (await hook.send(http=other.http)).status_code == 401
