"""Stored run snapshots: every write is a compare-and-set on the revision that was read."""

from collections.abc import Coroutine, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.kv import Bucket, Entry
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.broker.jetstream.stream_reads import stream_state, unix_time
from pyoco_server.records.runs.run_models import RunSnapshot, decode_snapshot, encode
from pyoco_server.records.unreadable_records import RecordKind


class StoredRun(msgspec.Struct, frozen=True):
    snapshot: RunSnapshot
    revision: int
    # When it was written, by the server's clock; empty when it was not read from the bucket.
    timestamp: str = ""


class RunStore:
    """The `pyoco_runs` bucket."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._bucket = Bucket(connection, connection.config.runs_kv_bucket)
        self._reader = RecordReader(connection, RecordKind.RUN, decode_snapshot, key_of=attrgetter("run_id"))

    def create(self, snapshot: RunSnapshot, *, encoded: bytes | None = None) -> Coroutine[Any, Any, int]:
        """Write the first snapshot of a run; RevisionConflict if the id is, or was, in use."""
        return self._bucket.update(snapshot.run_id, encoded or encode(snapshot), revision=0)

    async def get(self, run_id: str) -> StoredRun | None:
        """UnreadableRecord if the value is not a run snapshot."""
        return self._stored(run_id, await self._bucket.get(run_id))

    async def get_from_leader(self, run_id: str) -> StoredRun | None:
        """The same for decisions about ownership: a replica may lag."""
        return self._stored(run_id, await self._bucket.get_from_leader(run_id))

    async def find_many(self, run_ids: Sequence[str]) -> dict[str, StoredRun]:
        """As any replica knows them: one that is not found may exist, and any may have been written since."""
        entries = await self._bucket.get_many(run_ids)
        return {
            run_id: StoredRun(snapshot, entry.revision)
            for run_id, entry in entries.items()
            if (snapshot := self._reader.find(run_id, entry)) is not None
        }

    async def exists(self, run_id: str) -> bool:
        """As the leader knows it, whether or not its snapshot is readable."""
        return await self._bucket.get_from_leader(run_id) is not None

    async def marker(self, run_id: str) -> int | None:
        """The revision at which the run was deleted; None if it exists, or has left no marker."""
        return await self._bucket.marker(run_id)

    async def deleted_at(self, run_id: str) -> float | None:
        """When it was deleted, by the server's clock; None if it exists, or has left no marker."""
        return await self._bucket.deleted_at(run_id)

    async def age_sec(self, stored: StoredRun) -> float:
        """How long ago this snapshot was written, by the server's clock alone."""
        if not stored.timestamp:
            return 0.0
        now = (await stream_state(self._connection, self._bucket.stream)).server_time
        # Another server, with another clock, may be the leader by now.
        return max(0.0, now - unix_time(stored.timestamp))

    def replace(
        self, snapshot: RunSnapshot, *, revision: int, encoded: bytes | None = None
    ) -> Coroutine[Any, Any, int]:
        """Replace exactly `revision`; RevisionConflict if it was written since."""
        return self._bucket.update(snapshot.run_id, encoded or encode(snapshot), revision=revision)

    async def delete(self, run_id: str, *, revision: int) -> None:
        await self._bucket.delete(run_id, revision=revision)

    async def forbid(self, run_id: str) -> None:
        """Keep an unused id from being used; RevisionConflict if it has a run by now."""
        await self._bucket.forbid(run_id)

    def _stored(self, run_id: str, entry: Entry | None) -> StoredRun | None:
        if entry is None:
            return None
        return StoredRun(self._reader.read(run_id, entry), entry.revision, entry.timestamp)
