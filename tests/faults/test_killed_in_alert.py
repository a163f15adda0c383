"""A gateway killed (SIGKILL) while it fires an alert, at each point between its writes.

The only gateway kills itself at that point, and another one is started then. The message is delivered, with
one id: once if it was not sent before, and at most twice if it was.
"""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunStatus
from tests.faults.crashing_deployment import Deployment, crashing_deployment
from tests.support.broker.stored_runs import ended, write
from tests.support.running.hook_senders import SECRETS_KEY
from tests.support.waiting import eventually
from tests.support.webhooks import WebhookReceiver, webhook_receiver

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with webhook_receiver() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def deployment(
    shared_config: NatsBackendConfig, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    settings = {
        "PYOCO_SECRETS_KEYS": SECRETS_KEY,
        "PYOCO_ALERT_INTERVAL_SEC": "0.1",
        "PYOCO_ALERT_NETWORKS": "127.0.0.0/8",
        # What a killed gateway was sending is sent again five seconds after this.
        "PYOCO_NOTIFY_TIMEOUT_SEC": "1",
    }
    async with crashing_deployment(
        shared_config, tmp_path_factory.mktemp("deployment"), **settings
    ) as started:
        yield started


@pytest.mark.parametrize(
    ("crash_point", "sent_before"),
    [("alert fired", 0), ("alert message claimed", 0), ("alert message sent", 1)],
)
async def test_an_alert_that_fires_is_delivered_by_the_next_gateway(
    deployment: Deployment, receiver: WebhookReceiver, crash_point: str, sent_before: int
) -> None:
    await deployment.start_gateway(crash_point)
    assert deployment.gateway is not None
    name = crash_point.replace(" ", "-")
    channel = {"name": "ops", "kind": "webhook", "url": receiver.url}
    body = {"condition": "run_failed", "flow_name": name, "channels": [channel]}
    saved = await deployment.http.put(f"/alerts/{name}", json=body)
    assert saved.status_code == 200, saved.text
    failed = ended(RunStatus.FAILED, at=saved.json()["created_at"] + 1, flow_name=name)
    await write(RunStore(deployment.connection), failed)
    await deployment.gateway.killed_itself()
    assert len(receiver.requests) == sent_before
    async with deployment.successor():

        async def delivered() -> bool:
            [newest] = (await deployment.get(f"/alerts/{name}/history"))["items"]
            return bool(newest["fired"][0]["state"] == "delivered")

        await eventually(delivered, describe="the message is delivered")
    assert len(receiver.requests) == sent_before + 1
    assert len(set(receiver.ids())) == 1
    assert receiver.requests[-1].body["occurrence"]["run_ids"] == [failed.run_id]
