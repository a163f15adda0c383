"""What the server tells about jobs that it will not deliver any more, because they used up MaxDeliver.

The server tells each once, to whoever listens. A stream of our own listens, so that nothing is lost while
no gateway lives; a message of it is removed when it has been dealt with.
"""

import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import msgspec
from nats.aio.msg import Msg

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.stream_reads import read_batch
from pyoco_server.config import NatsBackendConfig

log = logging.getLogger(__name__)


class _MaxDeliveries(msgspec.Struct):
    stream_seq: int
    deliveries: int


_decode = msgspec.json.Decoder(_MaxDeliveries).decode


@dataclass(frozen=True, slots=True)
class UsedUp:
    """A job that the server has given up."""

    # Of the advisory itself.
    advisory: int
    # Of the job in the work stream.
    sequence: int
    deliveries: int


def advisory_subject(config: NatsBackendConfig) -> str:
    return f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{config.work_stream}.*"


class Advisories:
    """The `PYOCO_ADVISORIES` stream."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stream = connection.config.advisory_stream
        self._subject = advisory_subject(connection.config)
        self._client: object = None

    def tell(self, on_advisory: Callable[[], None]) -> None:
        """Call back whenever there is a new one: only a hint, the stream has them all."""

        async def heard(_: Msg) -> None:
            on_advisory()

        async def subscribe() -> None:
            # nats-py renews subscriptions over a reconnect, but not over a connection that was made anew.
            if self._client is not self._connection.client:
                self._client = self._connection.client
                await self._connection.subscribe(self._subject, heard)

        self._connection.add_hook(subscribe)

    async def waiting(self) -> AsyncIterator[UsedUp]:
        """Every job that was given up and not dealt with yet, the oldest first."""
        after = 0
        while batch := await read_batch(self._connection, self._stream, self._subject, after=after):
            for message in batch:
                try:
                    told = _decode(message.data)
                except msgspec.DecodeError as error:
                    log.warning("an advisory of the server is not readable: %s", error)
                    await self._remove(message.sequence)
                else:
                    yield UsedUp(message.sequence, told.stream_seq, told.deliveries)
            after = batch[-1].sequence

    async def done(self, used_up: UsedUp) -> None:
        """It has been dealt with; nobody needs to look at it again."""
        await self._remove(used_up.advisory)

    async def _remove(self, sequence: int) -> None:
        await jetstream_api.delete_message(self._connection, self._stream, sequence)
