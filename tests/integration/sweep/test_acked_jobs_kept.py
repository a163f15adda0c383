"""Jobs that NATS has kept below the ack floor of their consumer, as after a full disk."""

import logging

import pytest
from nats.js.api import AckPolicy, ConsumerConfig

from pyoco_server.broker.queue.tag_consumers import consumer_info, consumer_name, ensure_consumer
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import Job
from pyoco_server.runs.lifecycle.submission import new_job
from tests.support.inspection import queue_is_empty
from tests.support.running.gateway import RunningGateway
from tests.support.running.sweeping import (
    CrashedWorker,
    _no_submissions,
    config,
    messages_in_queue,
    rounds,
    store_without_job,
)
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually

__all__ = ["_no_submissions", "config"]


def _job(tag: str = "default") -> Job:
    return new_job(flow_name="noop", tag=tag)


async def _pass_by(gateway: RunningGateway) -> None:
    """Have the consumer of the default tag pass all jobs that are queued for it, without a delivery.

    It takes another subject for a moment, and its ack floor follows what it acknowledges there.
    """
    connection, config = gateway.inside.connection, gateway.inside.config
    context = connection.client.jetstream()
    name, stream, elsewhere = consumer_name("default"), config.work_stream, "elsewhere"
    options = ConsumerConfig(
        durable_name=name,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=config.consumer_ack_wait_sec,
        max_deliver=config.consumer_max_deliver,
        filter_subject=f"{config.work_subject_prefix}.{elsewhere}",
    )
    await context.add_consumer(stream, options)
    last = await WorkQueue(connection).publish(_job(elsewhere), run_revision=0)
    pulled = await context.pull_subscribe_bind(name, stream)
    [message] = await pulled.fetch(1)
    await message.ack_sync()
    await context.add_consumer(stream, options.evolve(filter_subject=f"{config.work_subject_prefix}.default"))
    info = await consumer_info(connection, "default")
    assert info is not None
    assert (info["ack_floor"]["stream_seq"], info["num_pending"], info["num_ack_pending"]) == (last, 0, 0)


async def test_the_job_of_an_ended_run_is_removed(
    config: NatsBackendConfig, gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = await gateway.submit("noop", tag="served")
    async with serving_worker(config, tags=["served"]):
        await gateway.ends(run_id)
        await eventually(lambda: queue_is_empty(gateway), describe="its job is acknowledged")
    # Another tag, which no worker serves, has an older job.
    await gateway.submit("noop", tag="unserved")
    job = _job()
    job.run_id = run_id
    queue = WorkQueue(gateway.inside.connection)
    await queue.publish_again(job, revision=1)
    await _pass_by(gateway)
    sweeper = gateway.inside.sweeper
    await eventually(lambda: sweeper.actions["acked_job_removed"] == 1, describe="it is removed")
    await rounds(gateway, 3)
    assert await messages_in_queue(gateway) == 1
    assert sweeper.actions == {"acked_job_removed": 1}
    [said] = [record for record in caplog.records if "although it was acknowledged" in record.message]
    assert (said.levelno, said.run_id, said.tag) == (logging.WARNING, run_id, "default")  # type: ignore[attr-defined]


async def test_the_job_of_a_deleted_run_is_removed(gateway: RunningGateway) -> None:
    await WorkQueue(gateway.inside.connection).publish(_job(), run_revision=0)
    await _pass_by(gateway)
    await eventually(lambda: queue_is_empty(gateway), describe="it is removed")


async def test_a_job_that_can_still_be_delivered_stays(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    queue = WorkQueue(gateway.inside.connection)
    await ensure_consumer(gateway.inside.connection, "default")
    # No run has them: only the consumer shows that they are not to be removed.
    for _ in range(3):
        await queue.publish(_job(), run_revision=0)
    await rounds(gateway, 4)
    assert await messages_in_queue(gateway) == 3
    assert not gateway.inside.sweeper.actions


@pytest.mark.usefixtures("_no_submissions")
async def test_a_run_whose_only_job_is_passed_by_gets_a_new_one(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    job = await store_without_job(gateway)
    await WorkQueue(gateway.inside.connection).publish(job, run_revision=1)
    await _pass_by(gateway)
    async with serving_worker(config):
        run = await gateway.ends(job.run_id)
        assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
        await eventually(lambda: queue_is_empty(gateway), describe="no job is left")
    assert gateway.inside.sweeper.actions == {"job_published": 1}


async def test_a_started_run_whose_job_was_acknowledged_gets_a_new_one(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    run_id = await gateway.submit("noop")
    await CrashedWorker(config).take()
    context = gateway.inside.connection.client.jetstream()
    await context.delete_consumer(config.work_stream, consumer_name("default"))
    await _pass_by(gateway)
    async with serving_worker(config):
        run = await gateway.ends(run_id)
        assert (run["status"], run["attempt"]) == ("COMPLETED", 2)
        await eventually(lambda: queue_is_empty(gateway), describe="no job is left")
    assert gateway.inside.sweeper.actions == {"job_published": 1}
