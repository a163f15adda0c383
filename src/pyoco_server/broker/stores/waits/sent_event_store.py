"""Stored events: each id has a subject of its own, and is stored once while its event is kept."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict, publish_acked
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.broker.jetstream.stream_reads import MessageInfo, StreamMessage, newest_info, read_batch
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.records.waits.signal_models import (
    EventRecord,
    decode_event,
    digest_token,
    encode,
    topic_subject,
)

_FIRST_ON_SUBJECT: Final = {"Nats-Expected-Last-Subject-Sequence": "0"}
# Names are read in turns: many events of one do not delay the reading of another.
_READS_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class StoredEvent:
    record: EventRecord
    # By the server's clock, in unix seconds: the same for whoever reads it, whichever gateway sent it.
    stored_at: float
    sequence: int


class SentEventStore:
    """The stream `PYOCO_EVENTS`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.stream = connection.config.event_stream
        self._prefix = connection.config.event_subject_prefix
        self._reader = RecordReader(connection, RecordKind.EVENT, decode_event)
        self._reads = asyncio.Semaphore(_READS_AT_ONCE)

    async def publish(self, event: EventRecord) -> bool:
        """Store an event; false if there is one of its tenant, name and id."""
        subject = f"{self._subject(event.tenant_id, event.name)}.{digest_token(event.event_id)}"
        try:
            await publish_acked(self._connection, subject, encode(event), _FIRST_ON_SUBJECT)
        except RevisionConflict:
            return False
        return True

    def decoded(self, message: StreamMessage) -> StoredEvent | None:
        """The event in a message of the stream; None if it cannot be read."""
        record = self._reader.in_stream("", message)
        return None if record is None else StoredEvent(record, message.stored_at, message.sequence)

    async def newest(self, tenant_id: str | None, name: str) -> MessageInfo | None:
        """The newest event of this name, as the leader knows it."""
        return await newest_info(self._connection, self.stream, f"{self._subject(tenant_id, name)}.*")

    async def up_to(self, newest: MessageInfo, *, since: float, after: int = 0) -> AsyncIterator[StoredEvent]:
        """The events of its name up to the newest, in order: those after `after`, or stored since that time.

        None of them is missing.
        """
        if newest.stored_ns < since * 1e9:
            return
        same_name = f"{newest.subject.rpartition('.')[0]}.*"
        # Rounded down: never after the newest one.
        start = datetime.fromtimestamp(int(since * 1e6) / 1e6, UTC).isoformat().replace("+00:00", "Z")
        while after < newest.sequence:
            async with self._reads:
                batch = await read_batch(
                    self._connection, self.stream, same_name, after=after, since="" if after else start
                )
            if not batch:
                raise self._connection.unavailable(
                    f"{self.stream}: a replica has not received message {newest.sequence} yet"
                )
            for message in batch:
                after = message.sequence
                if (event := self.decoded(message)) is not None:
                    yield event

    def _subject(self, tenant_id: str | None, name: str) -> str:
        return f"{self._prefix}.{topic_subject(tenant_id, name)}"
