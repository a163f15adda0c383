"""A consumer whose AckWait a worker cannot keep up with: its runs would be executed twice."""

import asyncio

import pytest
from nats.js.api import AckPolicy, ConsumerConfig

from pyoco_server.broker.queue import intake as intake_module
from pyoco_server.broker.queue.tag_consumers import consumer_name
from pyoco_server.errors import UnusableConsumer
from tests.integration.worker.conftest import OwnQueue
from tests.support.running.gateway import RunningGateway
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _set_ack_wait(gateway: RunningGateway, tag: str, seconds: float) -> None:
    """Create the consumer of a tag, or change it, as `nats consumer edit` does."""
    config = gateway.inside.config
    consumer = ConsumerConfig(
        durable_name=consumer_name(tag),
        filter_subject=f"{config.work_subject_prefix}.{tag}",
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=seconds,
        max_deliver=config.consumer_max_deliver,
        max_ack_pending=config.consumer_max_ack_pending,
    )
    await gateway.inside.connection.client.jetstream().add_consumer(config.work_stream, consumer)


async def test_a_worker_does_not_start_with_it(own_queue: OwnQueue) -> None:
    await _set_ack_wait(own_queue.gateway, own_queue.tag, 0.2)
    with pytest.raises(UnusableConsumer) as refused:
        async with own_queue.worker("w-refused"):
            pass
    text = str(refused.value)
    assert f"pyoco_worker_{own_queue.tag} of the stream PYOCO_WORK has an AckWait of 0.2 s" in text
    assert "at least 1 s" in text
    assert "nats consumer edit --wait 30s" in refused.value.error.cure("en")


async def test_a_worker_takes_no_runs_while_it_is_so(
    own_queue: OwnQueue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(intake_module, "_CHECK_SEC", 0.1)
    gateway, tag = own_queue.gateway, own_queue.tag
    async with own_queue.worker("w-changed"):
        assert (await own_queue.run("noop"))["status"] == "COMPLETED"
        await _set_ack_wait(gateway, tag, 0.2)
        await eventually(lambda: "has an AckWait of 0.2 s" in caplog.text, describe="it is reported")
        run_id = await own_queue.submit("noop")
        await asyncio.sleep(0.5)
        assert (await gateway.get(run_id))["status"] == "PENDING"
        await _set_ack_wait(gateway, tag, 5.0)
        ended = await gateway.ends(run_id)
        assert (ended["status"], ended["attempt"]) == ("COMPLETED", 1)
        assert caplog.text.count("taking no more runs") == 1
        assert "taking runs again" in caplog.text
