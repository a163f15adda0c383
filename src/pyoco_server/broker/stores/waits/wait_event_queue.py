"""The events of waits as a queue for notifications: each is delivered to one gateway at a time.

All gateways share one durable consumer of the stream. An event that is not acknowledged is redelivered: after
the delay of its nak, or after AckWait when its gateway has died.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

import msgspec
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.client.subscriptions import RenewableSubscription
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.jetstream_api import ConsumerGone
from pyoco_server.broker.jetstream.kv import Entry
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.broker.queue.work_queue import Delivery
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.records.waits.wait_models import WaitEvent, decode_wait_event

NOTIFY_CONSUMER: Final = "pyoco_notify"

_PULL_EXPIRES_SEC = 5.0
# Added to a timeout of the receiver or of NATS: for the way, for reading the wait, for the acknowledgement.
_MARGIN_SEC = 5.0
# Events between two attempts count too: while so many fail, the others wait in the stream.
_MAX_ACK_PENDING = 5_000
_EMPTY = {"404", "408"}


@dataclass(frozen=True, slots=True)
class QueuedWaitEvent:
    """One event, and the delivery of it to acknowledge."""

    event: WaitEvent
    delivery: Delivery


class WaitEventQueue:
    """The durable consumer of `PYOCO_WAIT_EVENTS`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stream = connection.config.wait_event_stream
        self._inbox = RenewableSubscription(connection, self._on_message)
        self._arrived: asyncio.Queue[Message] = asyncio.Queue()
        self._reader = RecordReader(connection, RecordKind.WAIT_EVENT, decode_wait_event)

    async def ensure_consumer(self) -> None:
        """Create or update the consumer; it begins with the next event."""
        config = ConsumerConfig(
            durable_name=NOTIFY_CONSUMER,
            deliver_policy=DeliverPolicy.NEW,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=self._connection.config.notify_timeout_sec + _MARGIN_SEC,
            max_deliver=-1,
            max_ack_pending=_MAX_ACK_PENDING,
        )
        request = {"stream_name": self._stream, "config": config.as_dict()}
        try:
            await self._call("CONSUMER.DURABLE.CREATE", request)
        except jetstream_api.ApiRefused as refused:
            raise self._connection.unavailable(f"{NOTIFY_CONSUMER}: {refused}") from refused

    async def delete_consumer(self) -> None:
        """Remove the consumer, and with it all undelivered notifications."""
        try:
            await self._call("CONSUMER.DELETE")
        except jetstream_api.ApiRefused as refused:
            if refused.code != jetstream_api.NOT_FOUND:
                raise self._connection.unavailable(f"{NOTIFY_CONSUMER}: {refused}") from refused

    async def next(self) -> QueuedWaitEvent | None:
        """The next event, or None after a while; for one caller at a time."""
        if await self._inbox.renew():
            self._arrived = asyncio.Queue()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{NOTIFY_CONSUMER}"
        pull = {"batch": 1, "expires": int(_PULL_EXPIRES_SEC * 1e9)}
        await self._connection.publish(subject, msgspec.json.encode(pull), reply=self._inbox.subject)
        try:
            async with asyncio.timeout(_PULL_EXPIRES_SEC + _MARGIN_SEC):
                message = await self._arrived.get()
        except TimeoutError:
            # A late reply must not be taken for the reply to the next pull.
            await self.end_pull()
            raise ConsumerGone("no reply to a pull") from None
        if message.status is None:
            return await self._read(message)
        if message.status in _EMPTY:
            return None
        raise ConsumerGone(f"{message.status} {message.headers['Description']}")

    async def end_pull(self) -> None:
        """End the pull that waits at the server, which drops pulls without a subscriber."""
        await self._inbox.end()

    def _on_message(self, message: Message) -> None:
        self._arrived.put_nowait(message)

    async def _read(self, message: Message) -> QueuedWaitEvent | None:
        delivery = Delivery(self._connection, message, tag="")
        sequence = delivery.stream_seq
        event = self._reader.find(f"#{sequence}", Entry(message.data, sequence))
        if event is None:
            await delivery.term()
            return None
        return QueuedWaitEvent(event, delivery)

    async def _call(self, what: str, body: object = None) -> None:
        await jetstream_api.call(self._connection, f"{what}.{self._stream}.{NOTIFY_CONSUMER}", body)


def notify_access(config: NatsBackendConfig) -> list[str]:
    """The subjects that a gateway publishes to for this."""
    consumer = f"{config.wait_event_stream}.{NOTIFY_CONSUMER}"
    calls = ("DURABLE.CREATE", "DELETE", "MSG.NEXT")
    return [*(f"$JS.API.CONSUMER.{call}.{consumer}" for call in calls), f"$JS.ACK.{consumer}.>"]
