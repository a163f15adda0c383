"""The queue of jobs: publishing, and the acknowledgement of deliveries."""

import logging
import time
from collections.abc import Coroutine, Mapping
from typing import Any

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import Message, delivery_tokens
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, message_at
from pyoco_server.broker.queue.tag_consumers import (
    NO_LIMITS,
    DeliveryLimits,
    configured_limits,
    consumer_info,
    limits_in,
    work_subject,
)
from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.runs.run_models import DeliveryId, Job, encode
from pyoco_server.telemetry import tracing

log = logging.getLogger(__name__)

# The part of AckWait after which a delivery counts as expired; the rest is for the way to the server.
_SAFE_PART = 0.75
# Lets the first worker claim a run without reading its snapshot first.
_REVISION_HEADER = "Pyoco-Run-Revision"


class Delivery:
    """One delivery of one job message to this worker."""

    __slots__ = (
        *("_connection", "_message", "_renewed_at"),
        *("limits", "number", "revision", "stream_seq", "subject", "tag", "waiting"),
    )

    def __init__(
        self,
        connection: Connection,
        message: Message,
        tag: str,
        *,
        limits: DeliveryLimits = NO_LIMITS,
        sent_at: float = 0.0,
    ) -> None:
        """`sent_at` is when the server sent it at the earliest, on our monotonic clock."""
        self._connection = connection
        self._message = message
        # Of the consumer that it comes from.
        self.limits = limits
        self._renewed_at = sent_at
        self.subject = message.subject
        self.tag = tag
        tokens = delivery_tokens(message.reply)
        # How often this message has been delivered, this time included.
        self.number = int(tokens[0])
        self.stream_seq = int(tokens[1])
        # How many more jobs were waiting at that moment.
        self.waiting = int(tokens[4])
        revision = message.headers.get(_REVISION_HEADER, "")
        # The snapshot's revision when the job was published, if the publisher sent it.
        self.revision = int(revision) if revision.isdigit() else None

    @property
    def payload(self) -> bytes:
        return self._message.data

    @property
    def headers(self) -> Mapping[str, str]:
        return self._message.headers

    @property
    def is_last(self) -> bool:
        """Whether the message is not delivered again after this."""
        return self.limits.exhausted_by(self.number)

    @property
    def id(self) -> DeliveryId:
        return DeliveryId(self.stream_seq, self.number)

    def ack(self) -> Coroutine[Any, Any, None]:
        """Done: the message leaves the queue."""
        # Not a coroutine of its own: every run passes here.
        return self._reply(b"+ACK")

    @property
    def has_expired(self) -> bool:
        """Whether AckWait has passed, or nearly so, and the message may be with another worker."""
        return time.monotonic() - self._renewed_at > _SAFE_PART * self.limits.ack_wait_sec

    async def nak(self, delay_sec: float = 0.0) -> None:
        """Not done: deliver it again, after the delay.

        The server applies a nak to the latest delivery: after AckWait it would take the message from the
        worker that has it by then. The message is redelivered without it in that case.
        """
        if self.has_expired:
            log.info("no nak for delivery %s: it has passed AckWait", self.id)
            return
        delay = b" " + msgspec.json.encode({"delay": int(delay_sec * 1e9)}) if delay_sec else b""
        await self._reply(b"-NAK" + delay)

    async def term(self) -> None:
        """Never deliver it again."""
        await self._reply(b"+TERM")

    async def in_progress(self) -> None:
        """Still working: restart AckWait."""
        had_expired = self.has_expired
        await self._reply(b"+WPI")
        if not had_expired:
            self._renewed_at = time.monotonic()

    async def _reply(self, payload: bytes) -> None:
        if not self._connection.state.up:
            raise self._connection.unavailable()
        await self._connection.publish(self._message.reply, payload)


class JobHead(msgspec.Struct, frozen=True):
    """The run of a job and its generation; the rest is not decoded."""

    run_id: str = ""
    generation: int = 0


_decode_head = record_decoder(JobHead, whole=False)


def head_of(payload: bytes) -> JobHead:
    """An empty head when the job is unreadable."""
    try:
        return _decode_head(payload)
    except UnreadableRecord:
        return JobHead()


def is_first_job(message: StreamMessage) -> bool:
    """Whether it is the job that the run was submitted with, and was not published again."""
    return _REVISION_HEADER in message.headers


def run_id_in(payload: bytes) -> str:
    """The run of a job; empty when the job is unreadable."""
    return head_of(payload).run_id


class WorkQueue:
    """The `PYOCO_WORK` stream."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._config = connection.config

    def publish(
        self, job: Job, *, run_revision: int, encoded: bytes | None = None
    ) -> Coroutine[Any, Any, int]:
        """Enqueue a job; the same run twice is stored once."""
        headers = {"Nats-Msg-Id": job.run_id, _REVISION_HEADER: str(run_revision), **tracing.trace_headers()}
        subject = work_subject(self._config, job.tag)
        return publish_acked(self._connection, subject, encoded or encode(job), headers)

    async def publish_again(self, job: Job, *, revision: int, replaces: int | None = None) -> str:
        """Enqueue a job that is missing in the queue; return its subject.

        It has another message id, because the queue may still remember that of the missing message. A run
        that was not started stays at its revision, so that the message it `replaces` is part of the id as
        well. It carries no revision: to claim a run that may have been started, its snapshot must be read.
        """
        subject = work_subject(self._config, job.tag)
        message_id = f"{job.run_id}.{revision}"
        headers = {"Nats-Msg-Id": message_id if replaces is None else f"{message_id}.{replaces}"}
        await publish_acked(self._connection, subject, encode(job), headers)
        return subject

    async def publish_continuation(self, job: Job) -> None:
        """Enqueue the job of a run that was parked; the same one twice is mostly stored once.

        After the deduplication window it is stored again, and cannot be claimed: a job is for one generation
        of its run.
        """
        subject = work_subject(self._config, job.tag)
        headers = {"Nats-Msg-Id": f"{job.run_id}.g{job.generation}", **tracing.trace_headers()}
        await publish_acked(self._connection, subject, encode(job), headers)

    async def message(self, sequence: int) -> StreamMessage | None:
        """The job of this sequence as the leader knows it; None when it has left the queue."""
        return await message_at(self._connection, self._config.work_stream, sequence)

    async def is_job_of(self, run_id: str, *, sequence: int) -> bool:
        """Whether the message of this sequence is a job of this run."""
        message = await self.message(sequence)
        # A stream that was created again uses the same sequences for other runs.
        return message is not None and run_id_in(message.data) == run_id

    async def remove(self, sequence: int) -> None:
        """Remove a message that will not be acknowledged."""
        await jetstream_api.delete_message(self._connection, self._config.work_stream, sequence)

    async def redeliver(self, tag: str, sequence: int) -> None:
        """Have a delivered message delivered again now, in place of its worker, which is gone.

        It is the nak that the worker would have sent: the delivery counts against MaxDeliver. The server
        applies a nak to the latest delivery of the message, whichever number it names, and ignores one for a
        message that is not in progress. The consumer's sequence has to be one that was delivered.
        """
        info = await consumer_info(self._connection, tag)
        if info is not None:
            position = f"1.{sequence}.{info['delivered']['consumer_seq']}.0.0"
            subject = f"{ack_subject(self._config.work_stream, info['name'])}.{position}"
            await self._connection.request(subject, b"-NAK")

    async def limits(self, tag: str) -> DeliveryLimits:
        """The limits of a tag's consumer; the settings while it does not exist."""
        info = await consumer_info(self._connection, tag)
        return configured_limits(self._config) if info is None else limits_in(info["config"])

    async def has_delivered(self, tag: str, sequence: int) -> bool:
        """Whether the message of this sequence has been delivered at least once."""
        info = await consumer_info(self._connection, tag)
        return info is not None and int(info["delivered"]["stream_seq"]) >= sequence


def ack_subject(stream: str, consumer: str) -> str:
    """Where deliveries of a consumer are acknowledged, followed by the position of one."""
    return f"$JS.ACK.{stream}.{consumer}"
