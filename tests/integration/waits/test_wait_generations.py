"""A run that waits a second time continues after the second answer, also with a busy queue."""

from dataclasses import replace

import pytest
from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.stream_reads import read_batch
from pyoco_server.broker.queue.queued_runs import QueuedRuns
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunStatus, TaskStatus
from pyoco_server.records.waits.wait_models import WaitRecord
from pyoco_server.runs.lifecycle.submission import new_job
from pyoco_server.runs.lifecycle.waiting_state import parked_snapshot
from pyoco_server.runs.open_runs import OpenRuns, RunState
from tests.integration.waits.test_wait_expiry import maintaining
from tests.support.broker.stored_waits import decide
from tests.support.running.waiting_runs import WaitingRun, wait_of, waiting_run
from tests.support.waiting import eventually

LIMIT_SEC = 90.0


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(config, sweep_interval_sec=0.2)


async def goes_on_and_asks_again(connection: Connection, run: WaitingRun) -> WaitRecord:
    """A worker takes the job and opens the next wait between two reads of the bucket."""
    store, stream = RunStore(connection), connection.config.work_stream
    stored = await store.get_from_leader(run.run_id)
    assert stored is not None
    second = wait_of(stored.snapshot, "check", name="second")
    await WaitStore(connection).create(second)
    running = structs.replace(stored.snapshot, status=RunStatus.RUNNING, open_waits=[])
    revision = await store.replace(running, revision=stored.revision)
    await store.replace(parked_snapshot(running, [second], {"check": TaskStatus.WAITING}), revision=revision)
    for message in await read_batch(connection, stream, "pyoco.work.>"):
        if run.run_id.encode() in message.data:
            await jetstream_api.delete_message(connection, stream, message.sequence)
    return second


async def test_a_run_continues_after_its_second_answer_in_a_busy_queue(
    connection: Connection,
) -> None:
    run, store = await waiting_run(connection), WaitStore(connection)
    # Each time the gateway that takes the answer dies before it has published the job.
    await decide(store, run.waits[0])
    async with maintaining(connection) as maintained:
        await run.has_jobs()
        until = maintained.maintenance.rounds + 3
        assert await eventually(
            lambda: maintained.maintenance.rounds >= until, describe="the job was seen in the queue"
        )
        for _ in range(2):
            job = new_job(flow_name="noop", tag="default")
            await WorkQueue(connection).publish(job, run_revision=1)
        second = await goes_on_and_asks_again(connection, run)
        await maintained.runs.look()
        assert await run.jobs() == []
        await decide(store, second)
        await run.has_jobs()
        assert [job.generation for job in await run.jobs()] == [2]


async def test_a_job_of_an_earlier_generation_does_not_continue_a_run(
    connection: Connection,
) -> None:
    queued = QueuedRuns(connection)
    queued.add("r", "pyoco.work.default", generation=1)
    assert [queued.is_queued("r", min_generation=generation) for generation in (0, 1, 2)] == [
        True,
        True,
        False,
    ]
    queued.add("r", "pyoco.work.default", generation=2)
    queued.add("r", "pyoco.work.default", generation=0)
    assert queued.is_queued("r", min_generation=2)
    # One message is believed to be in the queue, not three.
    assert queued._count_by_subject == {"pyoco.work.default": 1}
    queued.forget_before("r", 2)
    assert queued.is_queued("r", min_generation=2)
    queued.forget_before("r", 3)
    assert not queued.is_queued("r", min_generation=0)


def test_a_run_that_reopened_between_two_scans_begins_to_wait() -> None:
    runs, begun = OpenRuns(), []
    runs.on_parked(lambda run_id, generation: begun.append((run_id, generation)))
    for revision, (status, generation) in enumerate(
        [("PENDING", 0), ("WAITING_HUMAN", 1), ("WAITING_HUMAN", 1), ("WAITING_HUMAN", 2), ("RUNNING", 2)]
    ):
        runs.apply("r", revision, RunState(status=status, heartbeat_at=1.0, generation=generation))
    assert begun == [("r", 1), ("r", 2)]
