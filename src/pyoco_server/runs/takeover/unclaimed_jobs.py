"""Jobs that were delivered to a worker and not started by it: prefetched ones, or ones on their way.

NATS does not report which worker has a delivery, so that some of these jobs may be at a worker that is alive.
For each, a second job is published, and the first one stays in the queue: whichever is claimed first is the
run's job, and the other is dropped as its duplicate. A worker that is alive loses nothing. A second job that
is lost in the same way is redelivered after AckWait.
"""

from collections.abc import AsyncIterator, Iterable

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, read_batch
from pyoco_server.broker.queue.tag_consumers import consumer_info, work_subject
from pyoco_server.broker.queue.work_queue import head_of, is_first_job
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.runs.lifecycle.unowned_runs import UnownedRuns
from pyoco_server.runs.open_runs import OpenRuns

_BATCH = 64
_BATCH_BYTES = 1024 * 1024

# By tag, the sequence of the last message that was delivered.
Delivered = dict[str, int]


class UnclaimedJobs:
    def __init__(self, connection: Connection, unowned_runs: UnownedRuns, runs: OpenRuns) -> None:
        self._connection = connection
        self._unowned_runs = unowned_runs
        self._runs = runs

    async def delivered(self, tags: Iterable[str]) -> Delivered:
        """How far the queues of these tags are delivered now."""
        found: Delivered = {}
        for tag in tags:
            info = await consumer_info(self._connection, tag)
            if info is not None:
                found[tag] = int(info["delivered"]["stream_seq"])
        return found

    async def publish_again(self, delivered: Delivered) -> int:
        """Publish again the jobs that were delivered by then and not started; returns how many."""
        count = 0
        for tag, last in delivered.items():
            async for message in self._in_progress(tag, last):
                count += await self._publish(message)
        return count

    async def _in_progress(self, tag: str, last: int) -> AsyncIterator[StreamMessage]:
        """The delivered messages of a tag: the queue has at most MaxAckPending of them."""
        config = self._connection.config
        info = await consumer_info(self._connection, tag)
        after = last if info is None else int(info["ack_floor"]["stream_seq"])
        subject = work_subject(config, tag)
        while after < last:
            batch = await read_batch(
                self._connection,
                config.work_stream,
                subject,
                after=after,
                limit=_BATCH,
                max_bytes=_BATCH_BYTES,
            )
            for message in batch:
                if message.sequence > last:
                    return
                yield message
            after = batch[-1].sequence if batch else last

    async def _publish(self, message: StreamMessage) -> bool:
        head = head_of(message.data)
        run = self._runs.get(head.run_id)
        if run is None or run.state.status != RunStatus.PENDING or not is_first_job(message):
            return False
        stored = await self._unowned_runs.stored(head.run_id)
        if stored is None or stored.snapshot.status is not RunStatus.PENDING:
            return False
        if stored.snapshot.generation != head.generation:
            return False
        why = "the run's job may be at a worker that is gone: published a second one"
        # All gateways publish it with the same id: it is stored once.
        subject = await self._unowned_runs.republish_job(stored, replaces=message.sequence, why=why)
        return subject is not None
