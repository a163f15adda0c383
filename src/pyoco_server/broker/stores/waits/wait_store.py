"""Stored waits of all kinds: every write is a compare-and-set.

The key of a wait is its id, which begins with the id of its run: one subject with a wildcard matches all
waits of a run.
"""

import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.kv import Bucket, Entry
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, last_sequence, next_message, read_all
from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.records.waits.wait_models import (
    WaitEvent,
    WaitRecord,
    decode_outbox,
    decode_wait,
    encode_wait,
    run_id_of_wait,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredWait:
    record: WaitRecord
    revision: int
    # The events of the wait that are perhaps unpublished (waits/wait_event_outbox.py).
    outbox: tuple[WaitEvent, ...] = ()


class WaitStore:
    """The `pyoco_waits` bucket."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._bucket = Bucket(connection, connection.config.waits_kv_bucket)
        self._stream = self._bucket.stream
        self._prefix = self._bucket.prefix
        self._reader = RecordReader(
            connection, RecordKind.WAIT, _decode, key_of=lambda stored: stored[0].wait_id
        )

    async def get(self, wait_id: str) -> StoredWait | None:
        """UnreadableRecord if the value is not a wait."""
        entry = await self._bucket.get(wait_id)
        return None if entry is None else _stored(self._reader.read(wait_id, entry), entry)

    async def get_from_leader(self, wait_id: str) -> StoredWait | None:
        """The same for decisions: a replica may lag."""
        entry = await self._bucket.get_from_leader(wait_id)
        return None if entry is None else _stored(self._reader.read(wait_id, entry), entry)

    async def find_from_leader(self, wait_id: str) -> StoredWait | None:
        """As the leader knows it; None also if it cannot be read."""
        try:
            return await self.get_from_leader(wait_id)
        except UnreadableRecord:
            return None

    async def find_many(self, wait_ids: Sequence[str]) -> dict[str, StoredWait]:
        """As any replica knows them: one that is not found may exist, and any may have been written since."""
        entries = await self._bucket.get_many(wait_ids)
        return {
            wait_id: _stored(content, entry)
            for wait_id, entry in entries.items()
            if (content := self._reader.find(wait_id, entry)) is not None
        }

    async def of_run_from_leader(self, run_id: str) -> list[StoredWait]:
        """All waits of the run, in the order of their last writes; none that was acknowledged is missing."""
        messages = [message async for message in self._messages(run_id)]
        after = messages[-1].sequence if messages else 0
        subject = f"{self._prefix}{run_id}.*"
        # A replica stores messages in order: what it lacks is after the last one that it has.
        while newer := await next_message(self._connection, self._stream, subject, after=after):
            messages.append(newer)
            after = newer.sequence
        return self._waits_in(messages)

    async def create(self, record: WaitRecord, *, outbox: Sequence[WaitEvent] = ()) -> int:
        """Write a new wait; RevisionConflict if it exists, or existed."""
        return await self._bucket.update(record.wait_id, encode_wait(record, outbox), revision=0)

    async def replace(self, record: WaitRecord, revision: int, *, outbox: Sequence[WaitEvent] = ()) -> int:
        """Replace exactly `revision`; RevisionConflict if it was written since."""
        return await self._bucket.update(record.wait_id, encode_wait(record, outbox), revision=revision)

    async def remove_run(self, run_id: str) -> int:
        """Delete the waits of a run that is removed; markers remain, for the feed of the bucket."""
        removed = 0
        async for message in self._messages(run_id):
            if not message.is_marker:
                await self._remove(message.subject.removeprefix(self._prefix), message.sequence)
                removed += 1
        return removed

    async def has_messages(self, run_id: str) -> bool:
        """Whether there is a wait or a marker of the run; most runs have none."""
        return bool(await last_sequence(self._connection, self._stream, f"{self._prefix}{run_id}.*"))

    async def purge_run(self, run_id: str) -> None:
        """Remove the waits and markers of the run."""
        await jetstream_api.purge(self._connection, self._stream, f"{self._prefix}{run_id}.*")

    async def _remove(self, wait_id: str, revision: int) -> None:
        while True:
            try:
                await self._bucket.delete(wait_id, revision=revision)
                return
            except RevisionConflict:
                log.debug("the wait was changed meanwhile", extra=_log_fields(wait_id))
            newer = await self._bucket.get_from_leader(wait_id)
            if newer is None:
                return
            revision = newer.revision

    def _waits_in(self, messages: Iterable[StreamMessage]) -> list[StoredWait]:
        """The last message of each wait that can be read, in the order of these."""
        found: dict[str, StoredWait] = {}
        for message in messages:
            wait_id = message.subject.removeprefix(self._prefix)
            found.pop(wait_id, None)
            # A marker has no data, and the leader's messages come without headers.
            entry = Entry(message.data, message.sequence)
            if message.data and (content := self._reader.find(wait_id, entry)):
                found[wait_id] = _stored(content, entry)
        return list(found.values())

    def _messages(self, run_id: str) -> AsyncIterator[StreamMessage]:
        return read_all(self._connection, self._stream, f"{self._prefix}{run_id}.*")


def _decode(data: bytes) -> tuple[WaitRecord, list[WaitEvent]]:
    return decode_wait(data), decode_outbox(data)


def _stored(content: tuple[WaitRecord, list[WaitEvent]], entry: Entry) -> StoredWait:
    record, outbox = content
    return StoredWait(record, entry.revision, tuple(outbox))


def _log_fields(wait_id: str) -> dict[str, str]:
    return {"run_id": run_id_of_wait(wait_id), "wait_id": wait_id}
