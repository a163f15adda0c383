"""The view of the work queue is kept over interruptions: only what may have changed is read again."""

import asyncio
from typing import Any

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, read_batch
from pyoco_server.broker.queue import queued_runs
from pyoco_server.broker.queue.queued_runs import QueuedRuns
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.runs.lifecycle.submission import new_job
from tests.integration.broker.test_truncated_streams import reconnecting
from tests.support.broker.backups import Backup


class ReadMessages:
    """The sequences that were read from the queue, in the order in which they were."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sequences: list[int] = []
        monkeypatch.setattr(queued_runs, "read_batch", self._read)

    async def _read(self, *given: Any, **options: Any) -> list[StreamMessage]:
        batch = await read_batch(*given, **options)
        self.sequences += [message.sequence for message in batch]
        return batch


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> ReadMessages:
    return ReadMessages(monkeypatch)


async def publish(connection: Connection, count: int) -> list[str]:
    """Jobs of new runs; the ids of these."""
    jobs = [new_job(flow_name="noop", tag="default") for _ in range(count)]
    for number, job in enumerate(jobs):
        await WorkQueue(connection).publish(job, run_revision=number + 1)
    return [job.run_id for job in jobs]


async def acknowledge(connection: Connection, *sequences: int) -> None:
    """What an ack does to a message of a work queue."""
    for sequence in sequences:
        await jetstream_api.call(connection, "STREAM.MSG.DELETE.PYOCO_WORK", {"seq": sequence})


async def look(queued: QueuedRuns) -> None:
    await queued.compare(await queued.count())
    async for _ in queued.read():
        pass


def known(queued: QueuedRuns, run_ids: list[str]) -> list[bool]:
    return [queued.is_queued(run_id, min_generation=0) for run_id in run_ids]


async def test_a_request_without_a_reply_does_not_read_the_queue_again(
    connection: Connection, read: ReadMessages
) -> None:
    queued = QueuedRuns(connection)
    run_ids = await publish(connection, 3)
    await look(queued)
    connection.interruptions += 1
    run_ids += await publish(connection, 1)
    await look(queued)
    assert read.sequences == [1, 2, 3, 4]
    assert all(known(queued, run_ids))


async def test_jobs_after_the_newest_stored_one_are_read_again(
    connection: Connection, read: ReadMessages
) -> None:
    queued = QueuedRuns(connection)
    run_ids = await publish(connection, 4)
    await look(queued)
    # Their runs have not ended, as far as this gateway knows; and there are as many messages as before.
    await acknowledge(connection, 3, 4)
    run_ids += await publish(connection, 2)
    connection.interruptions += 1
    await look(queued)
    assert read.sequences == [1, 2, 3, 4, 5, 6]
    assert known(queued, run_ids) == [True, True, False, False, True, True]


async def test_a_published_job_is_verified_once_it_is_read(
    connection: Connection, read: ReadMessages
) -> None:
    queued = QueuedRuns(connection)
    [run_id] = await publish(connection, 1)
    await queued.compare(await queued.count())
    queued.add(run_id, "pyoco.work.default", generation=0)
    await look(queued)
    connection.interruptions += 1
    await look(queued)
    assert queued.is_queued(run_id, min_generation=0)
    assert read.sequences == [1]


async def test_a_queue_without_known_jobs_is_read_from_its_beginning(
    connection: Connection, read: ReadMessages
) -> None:
    queued = QueuedRuns(connection)
    await publish(connection, 2)
    await look(queued)
    await acknowledge(connection, 1, 2)
    new = await publish(connection, 2)
    connection.interruptions += 1
    await look(queued)
    assert known(queued, new) == [True, True]
    assert read.sequences == [1, 2, 3, 4]


async def test_jobs_before_a_truncation_are_kept_and_those_after_it_are_read(
    own_connection: Connection, backup: Backup, read: ReadMessages
) -> None:
    queued = QueuedRuns(own_connection)
    kept = await publish(own_connection, 2)
    await asyncio.to_thread(backup.take)
    lost = await publish(own_connection, 2)
    await look(queued)
    async with reconnecting(own_connection):
        await asyncio.to_thread(backup.restore)
    new = await publish(own_connection, 3)
    await look(queued)
    assert known(queued, kept + lost + new) == [True, True, False, False, True, True, True]
    assert read.sequences == [1, 2, 3, 4, 3, 4, 5]


async def test_a_truncation_between_two_batches_leaves_no_lost_job(
    own_connection: Connection, backup: Backup, read: ReadMessages
) -> None:
    queued = QueuedRuns(own_connection)
    await queued.compare(await queued.count())
    await asyncio.to_thread(backup.take)
    lost = await publish(own_connection, 2)
    new: list[str] = []
    async for _ in queued.read():
        if not new:
            async with reconnecting(own_connection):
                await asyncio.to_thread(backup.restore)
            new = await publish(own_connection, 3)
    assert known(queued, lost + new) == [False, False, True, True, True]
    # A batch that was read from the new history says nothing of the lost one.
    await look(queued)
    assert known(queued, lost + new) == [False, False, True, True, True]
