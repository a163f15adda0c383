"""The position of a run's job in the queue of its tag, found with a few reads however long the queue is.

Jobs share the subject of their tag, so that the job of one run cannot be requested. But a job is published
when its run is submitted: the search begins at that time. And with each message the server sends how many
follow it on its subject, from which its position is known without reading those before it.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, read_batch, stream_state
from pyoco_server.broker.queue.tag_consumers import (
    DeliveryLimits,
    configured_limits,
    consumer_info,
    limits_in,
    work_subject,
)
from pyoco_server.broker.queue.work_queue import run_id_in

# How far the clocks of a gateway and of the server may differ for the search by time to succeed.
_CLOCK_SKEW_SEC = 2.0
_BATCH = 256
_BATCH_BYTES = 2 * 1024 * 1024
# Of either search.
_MOST_BATCHES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TagQueue:
    """The queue of one tag."""

    limits: DeliveryLimits
    # Jobs not delivered yet (num_pending).
    waiting: int
    # Jobs delivered and not acknowledged (num_ack_pending), and how many there may be (max_ack_pending).
    in_work: int
    in_work_limit: int
    # Whether the tag's consumer is paused.
    paused: bool = False
    # The sequence of the newest job that was ever delivered.
    delivered: int = 0


class JobState(Enum):
    WAITING = auto()
    # To a worker at least once; it may be redelivered.
    DELIVERED = auto()
    ABSENT = auto()
    # The queue is too long for the search.
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class JobLocation:
    state: JobState
    # 1: the next one to be delivered.
    position: int | None = None


class QueueSearch:
    """Reads the `PYOCO_WORK` stream."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._config = connection.config

    async def queue(self, tag: str) -> TagQueue:
        """The queue of the tag; one that no worker has ever served has no consumer."""
        info = await consumer_info(self._connection, tag)
        if info is None:
            return await self._never_served(tag)
        return TagQueue(
            limits=limits_in(info["config"]),
            waiting=int(info["num_pending"]),
            in_work=int(info["num_ack_pending"]),
            in_work_limit=int(info["config"].get("max_ack_pending", -1)),
            paused=bool(info.get("paused", False)),
            delivered=int(info["delivered"]["stream_seq"]),
        )

    async def locate(self, run_id: str, tag: str, submitted_at: float, queue: TagQueue) -> JobLocation:
        """Where the job of a run is."""
        since = datetime.fromtimestamp(submitted_at - _CLOCK_SKEW_SEC, UTC).isoformat()
        async for message in self._jobs(tag, since=since):
            if run_id_in(message.data) == run_id:
                return _location_of(message, queue)
        read = 0
        async for message in self._jobs(tag):
            read += 1
            if run_id_in(message.data) == run_id:
                return _location_of(message, queue)
            if not message.num_pending:
                return JobLocation(JobState.ABSENT)
        return JobLocation(JobState.UNKNOWN if read else JobState.ABSENT)

    async def _jobs(self, tag: str, *, since: str = "") -> AsyncIterator[StreamMessage]:
        """The jobs of the tag in order, as many as a search may read."""
        subject = work_subject(self._config, tag)
        after = 0
        for _ in range(_MOST_BATCHES):
            batch = await read_batch(
                self._connection,
                self._config.work_stream,
                subject,
                after=after,
                limit=_BATCH,
                max_bytes=_BATCH_BYTES,
                since=since,
            )
            for message in batch:
                yield message
            if not batch:
                return
            after, since = batch[-1].sequence, ""

    async def _never_served(self, tag: str) -> TagQueue:
        config = self._config
        subject = work_subject(config, tag)
        state = await stream_state(self._connection, config.work_stream, subjects=subject)
        return TagQueue(
            limits=configured_limits(config),
            waiting=state.subjects.get(subject, 0),
            in_work=0,
            in_work_limit=config.consumer_max_ack_pending,
        )


def _location_of(job: StreamMessage, queue: TagQueue) -> JobLocation:
    if job.sequence <= queue.delivered:
        return JobLocation(JobState.DELIVERED)
    # The queue may have changed between the two reads.
    return JobLocation(JobState.WAITING, max(1, queue.waiting - job.num_pending))
