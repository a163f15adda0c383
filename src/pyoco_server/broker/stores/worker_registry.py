"""Worker records at rest. A worker writes what it does, a gateway what operators want of it.

Both write by compare-and-set, and whoever comes second keeps what the other has written: nobody's word is
lost.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.kv import Bucket, Entry
from pyoco_server.broker.jetstream.publishing import RevisionConflict, read_back
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, read_batch, stream_state
from pyoco_server.errors import NatsUnavailable, WorkerNotFound
from pyoco_server.records.models import WorkerRecord, decode_worker, encode

log = logging.getLogger(__name__)

# How often, and after which pause, a replica is asked that has not received our own last write yet.
_TRIES = 5
_REPLICA_SEC = 0.05


@dataclass(frozen=True, slots=True)
class StoredWorker:
    record: WorkerRecord
    subject: str
    revision: int
    # By the server's clock, in unix seconds.
    stored_at: float


class WorkerRegistry:
    """The `pyoco_workers` bucket, for a gateway."""

    def __init__(self, connection: Connection) -> None:
        config = connection.config
        self._connection = connection
        self._bucket = Bucket(connection, config.workers_kv_bucket)
        self._stream = f"KV_{config.workers_kv_bucket}"
        self._all = f"$KV.{config.workers_kv_bucket}.*"
        # The revision of our own last write: who has made a change sees it.
        self._written = 0

    async def get(self, worker_id: str) -> WorkerRecord | None:
        entry = await self._bucket.get(worker_id)
        return None if entry is None else decode_worker(entry.value)

    async def all(self) -> list[WorkerRecord]:
        """Every worker that has a record, however many, in one read of the bucket or a few."""
        return [stored.record for stored in await self.stored()]

    async def stored(self) -> list[StoredWorker]:
        for _ in range(_TRIES):
            messages = await self._messages()
            if not self._written or (messages and messages[-1].sequence >= self._written):
                break
            await asyncio.sleep(_REPLICA_SEC)
        else:
            # No replica is that late: the bucket was replaced, or what we wrote was removed.
            self._written = 0
        # A worker that writes between two reads is in both.
        latest = {message.subject: message for message in messages}
        return [stored for stored in map(_readable, latest.values()) if stored is not None]

    async def server_time(self) -> float:
        """The clock by which `stored_at` is told."""
        return (await stream_state(self._connection, self._stream)).server_time

    async def remove(self, stored: StoredWorker) -> None:
        """Remove the record unless it was written since; no marker is left, as nobody follows this bucket."""
        await jetstream_api.purge(self._connection, self._stream, stored.subject, upto=stored.revision)

    async def _messages(self) -> list[StreamMessage]:
        messages: list[StreamMessage] = []
        while batch := await read_batch(
            self._connection, self._stream, self._all, after=messages[-1].sequence if messages else 0
        ):
            messages += batch
        return messages

    async def change(self, worker_id: str, change: Callable[[WorkerRecord], WorkerRecord]) -> WorkerRecord:
        """Apply `change` to the record as it is when it is written; WorkerNotFound if there is none."""
        while True:
            entry, record = await self._entry(worker_id)
            changed = change(record)
            value = encode(changed)
            if value == entry.value:
                return changed
            try:
                self._written = await self._bucket.update(worker_id, value, revision=entry.revision)
            except RevisionConflict:
                continue
            except NatsUnavailable as failure:
                entry, record = await read_back(self._entry(worker_id), failure)
                # The worker may have written since, and keeps what was asked of it.
                if change(record) != record:
                    raise
                self._written = entry.revision
                return record
            return changed

    async def _entry(self, worker_id: str) -> tuple[Entry, WorkerRecord]:
        """As the leader knows it; WorkerNotFound if there is none."""
        entry = await self._bucket.get_from_leader(worker_id)
        if entry is None:
            raise WorkerNotFound(f"there is no worker {worker_id!r}")
        try:
            return entry, decode_worker(entry.value)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise WorkerNotFound(f"the record of worker {worker_id!r} cannot be read: {error}") from error


def _readable(message: StreamMessage) -> StoredWorker | None:
    if message.is_marker:
        return None
    try:
        record = decode_worker(message.data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        log.warning("the worker record at %s cannot be read: %s", message.subject, error)
        return None
    return StoredWorker(record, message.subject, message.sequence, message.stored_at)


class OwnRecord:
    """The one record that this worker keeps up to date."""

    def __init__(self, connection: Connection, record: WorkerRecord) -> None:
        self._bucket = Bucket(connection, connection.config.workers_kv_bucket)
        self._revision: int | None = None
        self.record = record
        # The instance id of another living worker that uses our id, if there is one.
        self.rival: str | None = None
        self._has_written = False

    async def save(self) -> None:
        """Write the record; what operators have written into it since is kept, and known afterwards."""
        while True:
            try:
                if self._revision is None:
                    await self._adopt_stored()
                self._revision = await self._write()
            except RevisionConflict:
                self._revision = None
            else:
                return

    async def _write(self) -> int:
        key, value = self.record.worker_id, encode(self.record)
        if self._revision is None:
            revision = await self._bucket.create(key, value)
        else:
            revision = await self._bucket.update(key, value, revision=self._revision)
        self._has_written = True
        return revision

    async def _adopt_stored(self) -> None:
        entry = await self._bucket.get_from_leader(self.record.worker_id)
        if entry is None:
            return
        self._revision = entry.revision
        try:
            stored = decode_worker(entry.value)
        except msgspec.DecodeError:
            log.warning("the record of worker %s was not readable and is replaced", self.record.worker_id)
            return
        self.record.hidden = stored.hidden
        self.record.paused = stored.paused
        if stored.instance_id == self.record.instance_id:
            # An earlier instance of this id was asked to end, and has: that is not meant for us.
            self.record.drain_requested_at = stored.drain_requested_at
        self._look_for_rival(stored)

    def _look_for_rival(self, stored: WorkerRecord) -> None:
        """A record that another instance has written since our last write is shared with a living worker."""
        is_other = stored.instance_id not in {self.record.instance_id, self.rival}
        if is_other and self._has_written:
            self.rival = stored.instance_id
            log.warning(
                "another worker uses the id %s as well; give each one its own (--worker-id)", stored.worker_id
            )
