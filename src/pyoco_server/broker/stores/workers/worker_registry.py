"""Stored worker records: a worker writes its state, a gateway the commands of operators.

Both write by compare-and-set and keep what the other has written.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.kv import Bucket, Entry
from pyoco_server.broker.jetstream.publishing import RevisionConflict, read_back
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, read_all, stream_state
from pyoco_server.errors import NatsUnavailable, WorkerNotFound
from pyoco_server.records.runs.run_models import encode
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.records.workers.worker_models import (
    WorkerEvent,
    WorkerEventKind,
    WorkerRecord,
    WorkerState,
    decode_worker,
    with_events,
)

log = logging.getLogger(__name__)

# How often, and after which pause, a replica is read again that lacks this gateway's last write.
_REPLICA_READS = 5
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
        self._connection = connection
        self._bucket = Bucket(connection, connection.config.workers_kv_bucket)
        self._stream = self._bucket.stream
        self._all = f"{self._bucket.prefix}*"
        self._reader = _reader(connection)
        # The revision of this gateway's last write, which it must read.
        self._written = 0

    async def get(self, worker_id: str) -> WorkerRecord | None:
        """UnreadableRecord if the value is not a worker record."""
        entry = await self._bucket.get(worker_id)
        return None if entry is None else self._reader.read(worker_id, entry)

    async def all(self) -> list[WorkerRecord]:
        return [stored.record for stored in await self.stored()]

    async def stored(self) -> list[StoredWorker]:
        for _ in range(_REPLICA_READS):
            messages = await self._messages()
            if not self._written or (messages and messages[-1].sequence >= self._written):
                break
            await asyncio.sleep(_REPLICA_SEC)
        else:
            # No replica lags that long: the bucket was replaced, or the record was removed.
            self._written = 0
        # A worker that writes between two reads is in both.
        latest = {message.subject: message for message in messages}
        return [stored for stored in map(self._readable, latest.values()) if stored is not None]

    async def server_time(self) -> float:
        """The present time by the clock of `stored_at`."""
        return (await stream_state(self._connection, self._stream)).server_time

    async def remove(self, stored: StoredWorker) -> None:
        """Remove the record unless it was written since; without a marker, as this bucket has no feed."""
        await jetstream_api.purge(self._connection, self._stream, stored.subject, upto=stored.revision)

    async def _messages(self) -> list[StreamMessage]:
        return [message async for message in read_all(self._connection, self._stream, self._all)]

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
                # The worker may have written since, and has kept the change.
                if change(record) != record:
                    raise
                self._written = entry.revision
                return record
            return changed

    async def _entry(self, worker_id: str) -> tuple[Entry, WorkerRecord]:
        """As the leader knows it; WorkerNotFound if there is none, UnreadableRecord if it cannot be read."""
        entry = await self._bucket.get_from_leader(worker_id)
        if entry is None:
            raise WorkerNotFound(f"there is no worker {worker_id!r}")
        return entry, self._reader.read(worker_id, entry)

    def _readable(self, message: StreamMessage) -> StoredWorker | None:
        if message.is_marker:
            return None
        worker_id = message.subject.removeprefix(self._bucket.prefix)
        record = self._reader.find(worker_id, Entry(message.data, message.sequence))
        if record is None:
            return None
        return StoredWorker(record, message.subject, message.sequence, message.stored_at)


def _reader(connection: Connection) -> RecordReader[WorkerRecord]:
    return RecordReader(connection, RecordKind.WORKER, decode_worker, key_of=attrgetter("worker_id"))


class OwnRecord:
    """The record of this worker."""

    def __init__(self, connection: Connection, record: WorkerRecord) -> None:
        self._bucket = Bucket(connection, connection.config.workers_kv_bucket)
        self._reader = _reader(connection)
        self._revision: int | None = None
        self.record = record
        # The instance id of another live worker with the same id, if there is one.
        self.rival: str | None = None
        self._has_written = False

    async def save(self) -> None:
        """Write the record; commands of operators are kept, and are in `record` afterwards."""
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
        stored = self._reader.find(self.record.worker_id, entry)
        if stored is None:
            log.warning("replacing the unreadable record of worker %s", self.record.worker_id)
            return
        self.record.hidden = stored.hidden
        self.record.paused = stored.paused
        self.record.history = with_events(
            self.record.history, *stored.history, *self._end_of_predecessor(stored)
        )
        if stored.instance_id == self.record.instance_id:
            # A drain of an earlier instance does not apply to this one.
            self.record.drain_requested_at = stored.drain_requested_at
        self._detect_rival(stored)

    def _end_of_predecessor(self, stored: WorkerRecord) -> list[WorkerEvent]:
        """The instance before this one cannot report that it died."""
        if self._has_written or stored.instance_id == self.record.instance_id:
            return []
        if stored.state is WorkerState.STOPPED_GRACEFUL:
            return []
        return [WorkerEvent(at=stored.last_seen_at, kind=WorkerEventKind.DISCONNECTED)]

    def _detect_rival(self, stored: WorkerRecord) -> None:
        """Another instance that has written since this one's last write is alive."""
        is_other = stored.instance_id not in {self.record.instance_id, self.rival}
        if is_other and self._has_written:
            self.rival = stored.instance_id
            log.warning(
                "another worker uses the id %s as well; give each one its own (--worker-id)", stored.worker_id
            )
