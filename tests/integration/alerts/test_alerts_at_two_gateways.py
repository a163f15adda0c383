"""Two gateways: each occurrence fires once, and each message is sent by one of them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
import pytest_asyncio

from pyoco_server.config import NatsBackendConfig
from tests.integration.alerts.alerting import FAST, fail, history, is_delivered, received, save, webhook
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.hook_senders import SECRETS_KEY
from tests.support.webhooks import webhook_receiver

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROUNDS = 20


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateways(shared_config: NatsBackendConfig) -> AsyncIterator[list[RunningGateway]]:
    async with AsyncExitStack() as opened:
        yield [
            await opened.enter_async_context(
                running_gateway(
                    replace(
                        shared_config,
                        secrets_keys=SECRETS_KEY,
                        index_dir=f"{shared_config.index_dir}-{number}",
                        **FAST,
                    )
                )
            )
            for number in (1, 2)
        ]


async def test_each_failure_is_reported_by_one_of_them(gateways: list[RunningGateway]) -> None:
    one, other = gateways
    with webhook_receiver() as receiver:
        await save(
            one,
            "orders",
            condition="run_failed",
            flow_name="orders",
            channels=[webhook(receiver)],
            cool_down_sec=0,
        )
        failed: list[str] = []
        for number in range(ROUNDS):
            failed += await fail(one, "orders")
            await received(receiver, number + 1)
            await is_delivered(other, "orders")
        reported = [run for each in receiver.requests for run in each.body["occurrence"]["run_ids"]]
        assert sorted(reported) == sorted(failed)
        assert len(set(receiver.ids())) == len(receiver.ids())
        items = await history(one, "orders")
        assert {each["fired"][0]["attempts"] for each in items} == {1}


async def test_a_state_fires_once_for_both(gateways: list[RunningGateway]) -> None:
    one, other = gateways
    with webhook_receiver() as receiver:
        await save(one, "many", condition="failures", flow_name="many", count=2, channels=[webhook(receiver)])
        await fail(other, "many", 2)
        await is_delivered(one, "many")
        # Both have evaluated it again meanwhile.
        await fail(one, "many", 2)
        await save(
            one, "end", condition="run_failed", flow_name="end", channels=[webhook(receiver, name="end")]
        )
        await fail(one, "end")
        await is_delivered(other, "end")
        kinds = [each.body["alert"]["alert_id"] for each in receiver.requests]
        assert kinds == ["many", "end"]
