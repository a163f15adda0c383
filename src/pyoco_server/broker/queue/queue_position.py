"""Where a run's job stands in the queue of its tag, found with a few reads however long the queue is.

Jobs share the subject of their tag, so that the job of one run cannot be asked for. But a job is published
when its run is submitted: it is looked for from that moment on. And with each message the server tells how
many follow it on its subject, from which its position is known without reading those before it.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, read_batch, stream_state
from pyoco_server.broker.queue.work_queue import DeliveryLimits, consumer_name, run_id_in

# How far the clocks of a gateway and of the server may be apart for the short way to work.
_CLOCKS_SEC = 2.0
_BATCH = 256
_BATCH_BYTES = 2 * 1024 * 1024
# Of either search.
_MOST_BATCHES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TagQueue:
    """The queue of one tag at a moment."""

    limits: DeliveryLimits
    # Jobs that were not delivered yet, and those that were and are not acknowledged.
    waiting: int
    in_work: int
    # How many may be in work at once.
    in_work_limit: int
    # Somebody has paused the tag's consumer.
    paused: bool = False
    # The newest job that was ever delivered.
    delivered: int = 0


class Standing(Enum):
    WAITING = auto()
    # A worker has been given the job, or had it and will be given it again.
    DELIVERED = auto()
    ABSENT = auto()
    # The queue is too long to tell.
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class JobPlace:
    standing: Standing
    # 1: the next one to be delivered.
    position: int | None = None


class QueuePlaces:
    """Looks into the `PYOCO_WORK` stream."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._config = connection.config

    async def queue(self, tag: str) -> TagQueue:
        """The queue of the tag as the server knows it; a tag that no worker has served has only jobs."""
        endpoint = f"CONSUMER.INFO.{self._config.work_stream}.{consumer_name(tag)}"
        try:
            info = await jetstream_api.call(self._connection, endpoint)
        except jetstream_api.ApiRefused as refused:
            if refused.code != jetstream_api.NOT_FOUND:
                raise self._connection.unavailable(f"{endpoint}: {refused}") from refused
            return await self._never_served(tag)
        applies = info["config"]
        return TagQueue(
            limits=DeliveryLimits(float(applies["ack_wait"]) / 1e9, int(applies.get("max_deliver", -1))),
            waiting=int(info["num_pending"]),
            in_work=int(info["num_ack_pending"]),
            in_work_limit=int(applies.get("max_ack_pending", -1)),
            paused=bool(info.get("paused", False)),
            delivered=int(info["delivered"]["stream_seq"]),
        )

    async def place(self, run_id: str, tag: str, submitted_at: float, queue: TagQueue) -> JobPlace:
        """Where the job of the run stands in the queue."""
        since = datetime.fromtimestamp(submitted_at - _CLOCKS_SEC, UTC).isoformat()
        async for message in self._jobs(tag, since=since):
            if run_id_in(message.data) == run_id:
                return _place_of(message, queue)
        read = 0
        async for message in self._jobs(tag):
            read += 1
            if run_id_in(message.data) == run_id:
                return _place_of(message, queue)
            if not message.num_pending:
                return JobPlace(Standing.ABSENT)
        return JobPlace(Standing.UNKNOWN if read else Standing.ABSENT)

    async def _jobs(self, tag: str, *, since: str = "") -> AsyncIterator[StreamMessage]:
        """The jobs of the tag in order, but not more than a search may read."""
        subject = f"{self._config.work_subject_prefix}.{tag}"
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
        subject = f"{config.work_subject_prefix}.{tag}"
        state = await stream_state(self._connection, config.work_stream, subjects=subject)
        return TagQueue(
            limits=DeliveryLimits(config.consumer_ack_wait_sec, config.consumer_max_deliver),
            waiting=state.subjects.get(subject, 0),
            in_work=0,
            in_work_limit=config.consumer_max_ack_pending,
        )


def _place_of(job: StreamMessage, queue: TagQueue) -> JobPlace:
    if job.sequence <= queue.delivered:
        return JobPlace(Standing.DELIVERED)
    # Jobs come and go between the two looks.
    return JobPlace(Standing.WAITING, max(1, queue.waiting - job.num_pending))
