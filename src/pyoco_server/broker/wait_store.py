"""Waits for people at rest: every write is a compare-and-set, and one of them decides.

A wait's key is its id, which begins with the id of its run: so one subject with a wildcard names all waits
of a run.
"""

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from pyoco_server.broker import jetstream_api
from pyoco_server.broker.connection import Connection
from pyoco_server.broker.kv import Bucket, Entry
from pyoco_server.broker.publishing import RevisionConflict
from pyoco_server.broker.stream_reads import StreamMessage, read_batch
from pyoco_server.wait_models import WaitRecord, decode_wait, encode

log = logging.getLogger(__name__)

_BATCH = 256


@dataclass(frozen=True, slots=True)
class StoredWait:
    record: WaitRecord
    revision: int


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

    async def of_run(self, run_id: str) -> list[StoredWait]:
        """All waits of the run as any replica knows them, those written last at the end."""
        found: list[StoredWait] = []
        async for message in self._messages(run_id):
            if not message.is_marker:
                wait_id = message.subject.removeprefix(self._prefix)
                stored = _stored(wait_id, Entry(message.data, message.sequence))
                if stored is not None:
                    found.append(stored)
        return found

    async def create(self, record: WaitRecord) -> int:
        """Write a wait that is asked the first time; RevisionConflict if it is there, or ever was."""
        return await self._bucket.update(record.wait_id, encode(record), revision=0)

    async def replace(self, record: WaitRecord, revision: int) -> int:
        """Write over exactly `revision`; RevisionConflict if somebody else wrote since."""
        return await self._bucket.update(record.wait_id, encode(record), revision=revision)

    async def remove_run(self, run_id: str) -> int:
        """Delete the waits of a run that is removed; markers stay, for whoever follows the bucket."""
        removed = 0
        async for message in self._messages(run_id):
            if not message.is_marker:
                wait_id = message.subject.removeprefix(self._prefix)
                try:
                    await self._bucket.delete(wait_id, revision=message.sequence)
                except RevisionConflict:
                    log.debug("a wait was removed by somebody else", extra={"wait_id": wait_id})
                removed += 1
        return removed

    async def has_traces(self, run_id: str) -> bool:
        """Whether there is anything under the run's id, be it a marker. Most runs ask nobody."""
        return bool(await read_batch(self._connection, self._stream, f"{self._prefix}{run_id}.*", limit=1))

    async def purge_run(self, run_id: str) -> None:
        """Take out all that there is under the run's id, markers as well."""
        await jetstream_api.purge(self._connection, self._stream, f"{self._prefix}{run_id}.*")

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
        return StoredWait(decode_wait(entry.value), entry.revision)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        log.error("the bucket of waits has a value that is none: %s", error, extra={"wait_id": wait_id})
        return None
