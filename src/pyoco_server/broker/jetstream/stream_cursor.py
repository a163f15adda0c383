"""Reading a whole stream in order, batch by batch, through a consumer that ends by itself.

For each batch of direct reads, the server counts the remaining messages of every subject, and nothing can be
written to the stream until it has: with a million keys, for a quarter of a second. For a consumer it counts
once, when the consumer is created.
"""

from typing import Any, Final
from uuid import uuid4

import msgspec
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from pyoco_server.broker.client.connection import NO_RESPONDERS, Connection
from pyoco_server.broker.client.message import Message, delivery_tokens
from pyoco_server.broker.client.subscriptions import DeliveryInbox
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.stream_reads import StreamMessage

# The server removes a consumer that is not used for so long.
_INACTIVE_SEC: Final = 60.0
# Nothing was there, and nothing has come.
_EMPTY: Final = ("404", "408")
_REFUSED: Final = "409"
_TOO_LARGE: Final = "Message Size Exceeds MaxBytes"


async def new_reader(connection: Connection, stream: str, *, inactive_sec: float, **config: Any) -> str:
    """The name of a new consumer without acks, which the server removes when it is not used."""
    name = f"pyoco_reader_{uuid4().hex}"
    consumer = ConsumerConfig(
        name=name,
        ack_policy=AckPolicy.NONE,
        inactive_threshold=inactive_sec,
        num_replicas=1,
        mem_storage=True,
        **config,
    )
    request = {"stream_name": stream, "config": consumer.as_dict(), "action": "create"}
    try:
        await jetstream_api.call(connection, f"CONSUMER.CREATE.{stream}.{name}", request)
    except jetstream_api.ApiRefused as refused:
        raise connection.unavailable(f"{stream}: {refused}") from refused
    return name


class DeliveredMessage(StreamMessage, frozen=True, gc=False):
    """A message from a consumer: its position and its time are in the reply subject."""

    @property
    def stored_ns(self) -> int:
        return 0 if self.reply is None else int(delivery_tokens(self.reply.reply)[3])

    @property
    def stored_at(self) -> float:
        return self.stored_ns / 1e9


class StreamCursor:
    """For one caller at a time, which reads on after the last message of the previous batch.

    Reading from elsewhere, or after an interruption of the connection, creates another consumer.
    """

    def __init__(self, connection: Connection, stream: str) -> None:
        self._connection = connection
        self._stream = stream
        self._inbox = DeliveryInbox(connection)
        # None: it does not exist, or it is not known what it has delivered.
        self._consumer: str | None = None
        # The last message that was read, and how many the consumer has delivered.
        self._after = 0
        self._delivered = 0
        # The connection's count of interruptions when the consumer was created.
        self._interruptions = 0

    async def read(self, *, after: int, limit: int, max_bytes: int) -> list[StreamMessage]:
        """The next messages after the sequence `after`; none at the end.

        The batch ends before it exceeds `max_bytes`, but has at least one message.
        JetStream notifies a consumer of a message after the ack of its publish: until then it may be missed.
        """
        pull: dict[str, object] = {"batch": limit, "no_wait": True}
        if max_bytes:
            pull["max_bytes"] = max_bytes
        return await self._read(after, limit, pull)

    async def wait_for_next(self, *, after: int, seconds: float) -> list[StreamMessage]:
        """The next message; none if none has come in this time."""
        return await self._read(after, 1, {"batch": 1, "expires": int(seconds * 1e9)})

    async def _read(self, after: int, limit: int, pull: dict[str, object]) -> list[StreamMessage]:
        consumer = await self._consumer_at(after)
        # Unknown until the batch is complete.
        self._consumer = None
        batch = await self._pull(consumer, limit, pull)
        if batch is None:
            # The server has removed it, because it was not used for _INACTIVE_SEC.
            consumer = await self._consumer_at(after)
            batch = await self._pull(consumer, limit, pull)
        if batch is None:
            raise self._gone("a new consumer was removed at once")
        self._consumer = consumer
        self._after = batch[-1].sequence if batch else after
        return batch

    async def close(self) -> None:
        """End reading; the server removes the consumer."""
        self._consumer = None
        await self._inbox.end()

    async def _consumer_at(self, after: int) -> str:
        """The name of a consumer that delivers what comes after this sequence."""
        interruptions = self._connection.interruptions
        if self._consumer and self._after == after and self._interruptions == interruptions:
            return self._consumer
        # Another inbox as well: the previous consumer may still send.
        await self._inbox.end()
        await self._inbox.renew()
        name = await new_reader(
            self._connection,
            self._stream,
            inactive_sec=_INACTIVE_SEC,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=after + 1,
        )
        self._after, self._delivered, self._interruptions = after, 0, interruptions
        return name

    async def _pull(self, consumer: str, limit: int, pull: dict[str, object]) -> list[StreamMessage] | None:
        """None if there is no such consumer."""
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{consumer}"
        batch: list[StreamMessage] = []
        async for message in self._connection.request_many(
            subject, msgspec.json.encode(pull), inbox=self._inbox
        ):
            if message.status is None:
                batch.append(self._delivered_message(message))
                if len(batch) == limit:
                    return batch
            elif message.status in _EMPTY:
                return batch
            elif message.status == NO_RESPONDERS:
                return None
            elif message.status == _REFUSED and message.headers["Description"] == _TOO_LARGE:
                return batch or await self._pull(consumer, 1, {"batch": 1, "no_wait": True})
            else:
                raise self._gone(f"{message.status} {message.headers['Description']}")
        return batch

    def _delivered_message(self, message: Message) -> StreamMessage:
        _, sequence, number, *_ = delivery_tokens(message.reply)
        self._delivered += 1
        if int(number) != self._delivered:
            raise self._gone(f"message {self._delivered} of the consumer was lost")
        return DeliveredMessage(int(sequence), message.subject, message.data, message)

    def _gone(self, why: str) -> Exception:
        # Its server may have been replaced by one that lacks the newest messages.
        self._connection.interruptions += 1
        return self._connection.unavailable(f"{self._stream}: {why}")


def reader_access(stream: str) -> list[str]:
    """The subjects that a reader of this stream publishes to."""
    return [f"$JS.API.CONSUMER.{call}.{stream}.*" for call in ("CREATE", "MSG.NEXT")]
