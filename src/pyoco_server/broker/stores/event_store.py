"""Stored events: each id has a subject of its own, and is stored once while its event is kept."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict, publish_acked
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, newest_info, read_batch
from pyoco_server.records.signal_models import (
    EventRecord,
    decode_event,
    digest_token,
    encode,
    topic_subject,
)
from pyoco_server.records.unreadable_records import RecordKind

_FIRST_ON_SUBJECT: Final = {"Nats-Expected-Last-Subject-Sequence": "0"}


@dataclass(frozen=True, slots=True)
class StoredEvent:
    record: EventRecord
    # By the server's clock, in unix seconds: the same for whoever reads it, whichever gateway sent it.
    stored_at: float


class EventStore:
    """The stream `PYOCO_EVENTS`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.stream = connection.config.event_stream
        self._prefix = connection.config.event_subject_prefix
        self._reader = RecordReader(connection, RecordKind.EVENT, decode_event)

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
        return None if record is None else StoredEvent(record, message.stored_at)

    async def has(self, tenant_id: str | None, name: str) -> bool:
        """Whether there is an event of this name, as the leader knows it."""
        subject = f"{self._subject(tenant_id, name)}.*"
        return await newest_info(self._connection, self.stream, subject) is not None

    async def since(self, tenant_id: str | None, name: str, at: float) -> AsyncIterator[StoredEvent]:
        """The events of this name that were stored at this time or later, in order.

        Nothing that was acknowledged before the call is missing.
        """
        subject = f"{self._subject(tenant_id, name)}.*"
        newest = await newest_info(self._connection, self.stream, subject)
        if newest is None or newest.stored_ns < at * 1e9:
            return
        # Rounded down: never after the newest one.
        start = datetime.fromtimestamp(int(at * 1e6) / 1e6, UTC)
        since, after = start.isoformat().replace("+00:00", "Z"), 0
        while after < newest.sequence:
            batch = await read_batch(
                self._connection, self.stream, subject, after=after, since="" if after else since
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
