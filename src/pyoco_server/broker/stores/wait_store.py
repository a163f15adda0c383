"""Waits for people at rest: every write is a compare-and-set, and one of them decides.

A wait's key is its id, which begins with the id of its run: so one subject with a wildcard names all waits
of a run.
"""

import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.kv import Bucket, Entry
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, last_sequence, next_message, read_batch
from pyoco_server.records.wait_models import WaitEvent, WaitRecord, decode_outbox, decode_wait, encode_wait

log = logging.getLogger(__name__)

_BATCH = 256


@dataclass(frozen=True, slots=True)
class StoredWait:
    record: WaitRecord
    revision: int
    # The events of the wait that are perhaps unpublished (human/event_outbox.py).
    outbox: tuple[WaitEvent, ...] = ()


class WaitStore:
    """The `pyoco_waits` bucket."""

    def __init__(self, connection: Connection) -> None:
        bucket = connection.config.waits_kv_bucket
        self._connection = connection
        self._bucket = Bucket(connection, bucket)
        self._stream = f"KV_{bucket}"
        self._prefix = f"$KV.{bucket}."

    async def get(self, wait_id: str) -> StoredWait | None:
        """As any replica knows it."""
        return _stored(wait_id, await self._bucket.get(wait_id))

    async def get_from_leader(self, wait_id: str) -> StoredWait | None:
        """For decisions, where a replica's older answer would be wrong."""
        return _stored(wait_id, await self._bucket.get_from_leader(wait_id))

    async def of_run_from_leader(self, run_id: str) -> list[StoredWait]:
        """All waits of the run, those written last at the end; whatever was acknowledged is among them."""
        messages = [message async for message in self._messages(run_id)]
        after = messages[-1].sequence if messages else 0
        subject = f"{self._prefix}{run_id}.*"
        # A replica stores messages in order: what it lacks is behind the last one that it has.
        while newer := await next_message(self._connection, self._stream, subject, after=after):
            messages.append(newer)
            after = newer.sequence
        return self._waits_in(messages)

    async def create(self, record: WaitRecord, *, outbox: Sequence[WaitEvent] = ()) -> int:
        """Write a wait that is asked the first time; RevisionConflict if it is there, or ever was."""
        return await self._bucket.update(record.wait_id, encode_wait(record, outbox), revision=0)

    async def replace(self, record: WaitRecord, revision: int, *, outbox: Sequence[WaitEvent] = ()) -> int:
        """Write over exactly `revision`; RevisionConflict if somebody else wrote since."""
        return await self._bucket.update(record.wait_id, encode_wait(record, outbox), revision=revision)

    async def remove_run(self, run_id: str) -> int:
        """Delete the waits of a run that is removed; markers stay, for whoever follows the bucket."""
        removed = 0
        async for message in self._messages(run_id):
            if not message.is_marker:
                await self._remove(message.subject.removeprefix(self._prefix), message.sequence)
                removed += 1
        return removed

    async def has_messages(self, run_id: str) -> bool:
        """Whether there is anything under the run's id, be it a marker. Most runs ask nobody."""
        return bool(await last_sequence(self._connection, self._stream, f"{self._prefix}{run_id}.*"))

    async def purge_run(self, run_id: str) -> None:
        """Take out all that there is under the run's id, markers as well."""
        await jetstream_api.purge(self._connection, self._stream, f"{self._prefix}{run_id}.*")

    async def _remove(self, wait_id: str, revision: int) -> None:
        while True:
            try:
                await self._bucket.delete(wait_id, revision=revision)
                return
            except RevisionConflict:
                log.debug("a wait was written or removed meanwhile", extra={"wait_id": wait_id})
            newer = await self._bucket.get_from_leader(wait_id)
            if newer is None:
                return
            revision = newer.revision

    def _waits_in(self, messages: Iterable[StreamMessage]) -> list[StoredWait]:
        """Of each wait its last message, in the order of these."""
        found: dict[str, StoredWait] = {}
        for message in messages:
            wait_id = message.subject.removeprefix(self._prefix)
            found.pop(wait_id, None)
            # A marker has no data, and the leader's messages come without headers.
            if message.data and (stored := _stored(wait_id, Entry(message.data, message.sequence))):
                found[wait_id] = stored
        return list(found.values())

    async def _messages(self, run_id: str) -> AsyncIterator[StreamMessage]:
        subject = f"{self._prefix}{run_id}.*"
        after = 0
        while batch := await read_batch(self._connection, self._stream, subject, after=after, limit=_BATCH):
            for message in batch:
                yield message
            if len(batch) < _BATCH:
                return
            after = batch[-1].sequence


def _stored(wait_id: str, entry: Entry | None) -> StoredWait | None:
    """A value that is no wait is treated as if there was none: somebody else has written it."""
    if entry is None:
        return None
    try:
        outbox = tuple(decode_outbox(entry.value))
        return StoredWait(decode_wait(entry.value), entry.revision, outbox)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        log.error("the bucket of waits has a value that is none: %s", error, extra={"wait_id": wait_id})
        return None
