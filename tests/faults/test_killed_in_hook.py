"""A gateway killed (SIGKILL) while it processes a delivery, at each point between its writes.

The only gateway kills itself at that point, and another one is started then. The sender, which got no answer,
repeats the delivery: one run, and its id is the answer.
"""

from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest
import pytest_asyncio

from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.stores.triggers.hook_messages import INTAKE_CONSUMER
from pyoco_server.config import NatsBackendConfig
from tests.faults.crashing_deployment import Deployment, crashing_deployment
from tests.support.running.hook_senders import SECRETS_KEY, a_hook
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def deployment(
    shared_config: NatsBackendConfig, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    folder = tmp_path_factory.mktemp("deployment")
    async with crashing_deployment(shared_config, folder, PYOCO_SECRETS_KEYS=SECRETS_KEY) as started:
        yield started


async def run_ids(deployment: Deployment, hook_id: str) -> list[str]:
    found = await deployment.get(f"/runs?cause=event:hook:{hook_id}")
    return [run["run_id"] for run in found]


@pytest.mark.parametrize(
    ("crash_point", "overlap", "was_started"),
    [
        ("receipt reserved", "allow", False),
        ("run created", "allow", True),
        ("job", "allow", True),
        ("run of a hook", "allow", True),
        ("slot taken", "skip", False),
        ("receipt reserved", "reject", False),
        ("run of a hook", "skip", True),
    ],
)
async def test_a_delivery_without_an_answer_is_repeated_and_starts_one_run(
    deployment: Deployment, crash_point: str, overlap: str, was_started: bool
) -> None:
    await deployment.start_gateway(crash_point)
    hook = await a_hook(deployment.http, "github", overlap=overlap)
    with pytest.raises(httpx.TransportError):
        await hook.send({"n": 1}, "d1")
    assert deployment.gateway is not None
    await deployment.gateway.killed_itself()
    async with deployment.successor():
        assert len(await run_ids(deployment, hook.hook_id)) == int(was_started)
        again = await hook.send({"n": 1}, "d1")
        assert again.status_code == 202, again.text
        # A run that only the slot names is started now, for the first time.
        assert again.json()["duplicate"] is (crash_point != "slot taken")
        assert await run_ids(deployment, hook.hook_id) == [again.json()["run_id"]]
        once_more = await hook.send({"n": 1}, "d1")
        assert once_more.json() == {"run_id": again.json()["run_id"], "duplicate": True}
        # Its job is in the queue: the run can be executed.
        run = await deployment.get(f"/runs/{again.json()['run_id']}")
        assert run["status"] == "PENDING"


async def shorten_ack_wait(deployment: Deployment) -> None:
    """What no gateway has acknowledged is redelivered now."""
    connection = deployment.connection
    consumer = f"{connection.config.event_intake_stream}.{INTAKE_CONSUMER}"
    info = await jetstream_api.call(connection, f"CONSUMER.INFO.{consumer}")
    shorter = info["config"] | {"ack_wait": 100_000_000}
    request = {"stream_name": connection.config.event_intake_stream, "config": shorter}
    await jetstream_api.call(connection, f"CONSUMER.DURABLE.CREATE.{consumer}", request)


@pytest.mark.parametrize(
    ("crash_point", "status"),
    [
        ("receipt reserved", "duplicate"),
        ("run created", "duplicate"),
        ("job", "duplicate"),
        ("run of a hook", "duplicate"),
    ],
)
async def test_a_message_is_delivered_again_and_starts_one_run(
    deployment: Deployment, crash_point: str, status: str
) -> None:
    """It was not acknowledged: NATS redelivers it after AckWait, which the test makes shorter."""
    await deployment.start_gateway(crash_point)
    hook = await a_hook(deployment.http, "nats", idempotency="/id")
    body = msgspec.json.encode({"id": "order-1"})
    await publish_acked(deployment.connection, hook.record["subject"], body)
    assert deployment.gateway is not None
    await deployment.gateway.killed_itself()
    async with deployment.successor():
        await shorten_ack_wait(deployment)

        async def started() -> list[str]:
            return await run_ids(deployment, hook.hook_id)

        found = await eventually(started, describe="the run is started")
        # So short, AckWait may pass again while the gateway works: then there are more, all of them the same.
        kept = await hook.deliveries(1)
        assert {(each["status"], each["run_id"]) for each in kept} == {(status, found[0])}
        assert await run_ids(deployment, hook.hook_id) == found
        assert len(found) == 1
