"""The sweep publishes lost jobs again, and nothing is executed twice."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.queue.queued_runs import QueuedRuns
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.streams_and_buckets import ensure_resources
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import encode
from pyoco_server.runs.lifecycle.submission import new_job
from tests.support.broker.connections import connected
from tests.support.inspection import dead_letters, queue_is_empty
from tests.support.running.gateway import RunningGateway
from tests.support.running.sweeping import (
    YAML,
    CrashedWorker,
    _no_submissions,
    config,
    messages_in_queue,
    purge_queue,
    rounds,
    store_without_job,
)
from tests.support.running.workers import serving_worker
from tests.support.waiting import NEVER_SEC, eventually, eventually_equals

__all__ = ["_no_submissions", "config"]


# A job that was never published, or is gone


@pytest.mark.usefixtures("_no_submissions")
async def test_an_unpublished_job_is_published_and_executed_once(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    counter = tmp_path / "executions"
    job = await store_without_job(
        gateway, flow_name="counting", params={"counter": str(counter), "seconds": 0}, timeout_sec=60
    )
    async with serving_worker(config):
        run = await gateway.ends(job.run_id)
    assert (run["status"], run["attempt"], run["timeout_sec"]) == ("COMPLETED", 1, 60)
    assert counter.read_text() == "executed\n"
    assert gateway.inside.sweeper.actions == {"job_published": 1}
    [said] = [record for record in caplog.records if "published one" in record.message]
    assert (said.run_id, said.flow_name, said.tag) == (job.run_id, "counting", "default")  # type: ignore[attr-defined]


@pytest.mark.usefixtures("_no_submissions")
async def test_a_lost_job_is_rebuilt_as_it_was(gateway: RunningGateway) -> None:
    job = await store_without_job(
        gateway, tag="later", tags=["later", "x"], params={"a": [1, None]}, workflow_yaml=YAML.encode()
    )
    await Journal(gateway.inside.connection).keep_document("later", job.run_id, YAML.encode())

    async def published() -> bytes | None:
        message = await WorkQueue(gateway.inside.connection).message(1)
        return None if message is None else message.data

    assert await eventually(published, describe="the job is in the queue") == encode(job)


@pytest.mark.usefixtures("_no_submissions")
async def test_a_run_whose_flow_yaml_is_lost_fails_and_says_so(gateway: RunningGateway) -> None:
    job = await store_without_job(gateway, workflow_yaml=YAML.encode())
    run = await gateway.ends(job.run_id)
    assert (run["status"], run["reason"]) == ("FAILED", "invalid_job")
    assert "flow.yaml was not kept" in run["error"]
    [letter] = await eventually(lambda: dead_letters(gateway), describe="a dead letter")
    assert (letter["reason"], letter["run_id"]) == ("invalid_job", job.run_id)
    assert await messages_in_queue(gateway) == 0


async def test_queued_runs_are_not_republished(gateway: RunningGateway) -> None:
    run_ids = {await gateway.submit("noop", tag=f"nobody-{number % 3}") for number in range(30)}
    sweeper = gateway.inside.sweeper
    await eventually(
        lambda: all(sweeper._queued.is_queued(run_id, min_generation=0) for run_id in run_ids),
        describe="the sweep has asked itself where their jobs are",
    )
    await rounds(gateway, 3)
    assert await messages_in_queue(gateway) == len(run_ids)
    assert not sweeper.actions


async def test_a_purged_queue_is_refilled(config: NatsBackendConfig, gateway: RunningGateway) -> None:
    run_id = await gateway.submit("noop")
    sweeper = gateway.inside.sweeper
    await eventually(lambda: sweeper._queued.is_queued(run_id, min_generation=0), describe="its job was seen")
    await purge_queue(gateway)
    async with serving_worker(config):
        assert (await gateway.ends(run_id))["status"] == "COMPLETED"


@pytest.mark.parametrize("max_deliver", [20, 1], ids=["more deliveries", "last delivery"])
async def test_a_started_run_with_a_purged_message_is_requeued_once_and_resumed(
    config: NatsBackendConfig, gateway: RunningGateway, max_deliver: int
) -> None:
    run_id = await gateway.submit("noop")
    await CrashedWorker(replace(config, consumer_max_deliver=max_deliver)).take()
    await purge_queue(gateway)
    await eventually_equals(lambda: messages_in_queue(gateway), 1, describe="the job is in the queue again")
    await rounds(gateway, 10)
    assert await messages_in_queue(gateway) == 1
    async with serving_worker(config):
        run = await gateway.ends(run_id)
    assert (run["status"], run["attempt"], run["worker_id"]) == ("COMPLETED", 2, "worker")
    assert gateway.inside.sweeper.actions == {"job_published": 1}


async def test_a_recreated_queue_is_read_again(config: NatsBackendConfig) -> None:
    async with connected(config) as connection:
        queued = QueuedRuns(connection)
        await queued.compare(await queued.count())
        old, new = (new_job(flow_name="noop", tag="default") for _ in range(2))
        await WorkQueue(connection).publish(old, run_revision=1)
        assert [_ async for _ in queued.read()] == [None]
        assert queued.is_queued(old.run_id, min_generation=0)
        await jetstream_api.call(connection, "STREAM.DELETE.PYOCO_WORK")
        await ensure_resources(connection)
        # As many messages as before, under the same sequences.
        await WorkQueue(connection).publish(new, run_revision=2)
        await queued.compare(await queued.count())
        assert [_ async for _ in queued.read()] == [None]
        assert not queued.is_queued(old.run_id, min_generation=0)
        assert queued.is_queued(new.run_id, min_generation=0)


async def test_a_recreated_bucket_is_read_again(gateway: RunningGateway) -> None:
    connection, runs = gateway.inside.connection, gateway.inside.sweeper._runs

    async def known() -> list[str]:
        await gateway.inside.listing.lists.caught_up()
        return [run.run_id async for group in runs.groups() for run in group]

    old = await store_without_job(gateway)
    assert await known() == [old.run_id]
    await jetstream_api.call(connection, "STREAM.DELETE.KV_pyoco_runs")
    await ensure_resources(connection)
    new = await store_without_job(gateway)
    assert await known() == [new.run_id]


async def test_a_second_job_of_a_running_run_is_dropped(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    book, release = tmp_path / "book", tmp_path / "release"
    # A worker that is held up for a moment is not given its own job again.
    async with serving_worker(replace(config, consumer_ack_wait_sec=NEVER_SEC), concurrency=2):
        params = {"book": str(book), "release": str(release)}
        run_id = await gateway.submit("interrupted-chain", params=params)
        job = await eventually(lambda: WorkQueue(gateway.inside.connection).message(1), describe="its job")
        await eventually(lambda: book.exists() and "two" in book.read_text(), describe="it began")
        await publish_acked(gateway.inside.connection, "pyoco.work.default", job.data)
        await eventually_equals(
            lambda: messages_in_queue(gateway), 1, describe="the second job is acked while the first one runs"
        )
        release.touch()
        run = await gateway.ends(run_id)
        assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
        assert await eventually(lambda: queue_is_empty(gateway), describe="the queue is empty")
    assert book.read_text().split() == ["one", "two", "three"]


# Beside submits


async def test_a_round_reads_nothing_before_the_end_of_a_burst_of_submits(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index is read for it, with all runs that were submitted."""
    inside, calls, waits = gateway.inside, list[str](), list[float]()
    caught_up = inside.listing.lists.caught_up

    async def wait_for_burst_end(longest_sec: float) -> None:
        waits.append(longest_sec)
        calls.append("burst over")

    async def noted() -> None:
        calls.append("caught up")
        await caught_up()

    monkeypatch.setattr(inside.connection.urgent, "wait_for_burst_end", wait_for_burst_end)
    monkeypatch.setattr(inside.listing.lists, "caught_up", noted)
    await rounds(gateway, 1)
    begin = calls.index("burst over")
    assert calls[begin + 1] == "caught up"
    # Its lease expires after three intervals.
    assert waits[0] < inside.config.sweep_interval_sec
