"""The queue of jobs: publishing one, and what a worker can say about a delivery of it."""

from collections.abc import Mapping

import msgspec
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig

from pyoco_server.broker import jetstream_api
from pyoco_server.broker.connection import Connection
from pyoco_server.broker.publishing import publish_acked
from pyoco_server.models import Job, encode

# Lets the first worker claim a run without reading its snapshot first.
_REVISION_HEADER = "Pyoco-Run-Revision"


class Delivery:
    """One delivery of one job message to this worker."""

    __slots__ = ("_connection", "_message", "number", "revision", "stream_seq", "subject", "tag")

    def __init__(self, connection: Connection, message: Msg, tag: str) -> None:
        self._connection = connection
        self._message = message
        self.subject = message.subject
        self.tag = tag
        metadata = message.metadata
        # How often this message has been delivered, this time included.
        self.number = metadata.num_delivered
        self.stream_seq = metadata.sequence.stream
        revision = (message.headers or {}).get(_REVISION_HEADER, "")
        # The snapshot's revision when the job was published, if the publisher told.
        self.revision = int(revision) if revision.isdigit() else None

    @property
    def payload(self) -> bytes:
        return self._message.data

    @property
    def token(self) -> tuple[int, int]:
        """Orders deliveries: a later one of the same run is always greater."""
        return (self.stream_seq, self.number)

    async def ack(self) -> None:
        """Done: the message leaves the queue."""
        await self._say(b"+ACK")

    async def nak(self, delay_sec: float = 0.0) -> None:
        """Not done: deliver it again, after the delay."""
        delay = b" " + msgspec.json.encode({"delay": int(delay_sec * 1e9)}) if delay_sec else b""
        await self._say(b"-NAK" + delay)

    async def term(self) -> None:
        """Never deliver it again."""
        await self._say(b"+TERM")

    async def in_progress(self) -> None:
        """Still working: start the AckWait clock anew."""
        await self._say(b"+WPI")

    async def _say(self, word: bytes) -> None:
        if not self._connection.state.up:
            raise self._connection.unavailable()
        await self._connection.publish(self._message.reply, word)


class WorkQueue:
    """The `PYOCO_WORK` stream."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._config = connection.config

    async def publish(self, job: Job, *, run_revision: int) -> None:
        """Put a job into the queue; publishing the same run again is stored once."""
        headers: Mapping[str, str] = {"Nats-Msg-Id": job.run_id, _REVISION_HEADER: str(run_revision)}
        subject = f"{self._config.work_subject_prefix}.{job.tag}"
        await publish_acked(self._connection, subject, encode(job), headers)

    async def ensure_consumer(self, tag: str) -> float:
        """The tag's durable consumer, made when missing; returns the AckWait that applies, in seconds."""
        config = self._config
        wanted = ConsumerConfig(
            durable_name=consumer_name(tag),
            filter_subject=f"{config.work_subject_prefix}.{tag}",
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=config.consumer_ack_wait_sec,
            max_deliver=config.consumer_max_deliver,
            max_ack_pending=config.consumer_max_ack_pending,
        )
        applies = await jetstream_api.ensure_consumer(self._connection, config.work_stream, wanted)
        return float(applies["ack_wait"]) / 1e9


def consumer_name(tag: str) -> str:
    return f"pyoco_worker_{tag}"
