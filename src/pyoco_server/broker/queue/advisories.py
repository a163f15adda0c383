"""Advisories of the server about jobs that have used up MaxDeliver.

The server publishes each once. A stream stores them, so that none is lost while no gateway runs; a message
is removed from it when it has been handled.
"""

import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.subscriptions import RenewableSubscription
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.stream_reads import read_batch
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.value_types import Count

log = logging.getLogger(__name__)


class _MaxDeliveries(msgspec.Struct):
    stream_seq: Count
    deliveries: Count


_decode = record_decoder(_MaxDeliveries)


@dataclass(frozen=True, slots=True)
class ExhaustedJob:
    """A job that the server does not deliver any more."""

    # The sequence of the advisory, and that of the job in the work stream.
    advisory: int
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

    def on_advisory(self, callback: Callable[[], None]) -> None:
        """Call back for each new one: only a hint, the stream has them all."""
        subscription = RenewableSubscription(self._connection, lambda _: callback(), self._subject)
        self._connection.on_connect(subscription.renew)

    async def unhandled(self) -> AsyncIterator[ExhaustedJob]:
        """Every exhausted job that was not handled yet, the oldest first."""
        after = 0
        while batch := await read_batch(self._connection, self._stream, self._subject, after=after):
            for message in batch:
                try:
                    advisory = _decode(message.data)
                except UnreadableRecord as error:
                    log.warning("removing an unreadable advisory: %s", error)
                    await self._remove(message.sequence)
                else:
                    yield ExhaustedJob(message.sequence, advisory.stream_seq, advisory.deliveries)
            after = batch[-1].sequence

    async def done(self, job: ExhaustedJob) -> None:
        """Remove the advisory of a job that has been handled."""
        await self._remove(job.advisory)

    async def _remove(self, sequence: int) -> None:
        await jetstream_api.delete_message(self._connection, self._stream, sequence)
