"""Worker records at rest: the worker writes what it does and keeps the `hidden` that a gateway wrote."""

import logging

import msgspec

from pyoco_server.broker.connection import Connection
from pyoco_server.broker.kv import Bucket, RevisionConflict
from pyoco_server.models import WorkerRecord, decode_worker, encode

log = logging.getLogger(__name__)


class WorkerRegistry:
    """The `pyoco_workers` bucket."""

    def __init__(self, connection: Connection) -> None:
        self._bucket = Bucket(connection, connection.config.workers_kv_bucket)

    async def get(self, worker_id: str) -> WorkerRecord | None:
        entry = await self._bucket.get(worker_id)
        return None if entry is None else decode_worker(entry.value)


class OwnRecord:
    """The one record that this worker keeps up to date."""

    def __init__(self, connection: Connection, record: WorkerRecord) -> None:
        self._bucket = Bucket(connection, connection.config.workers_kv_bucket)
        self._revision: int | None = None
        self.record = record

    async def save(self) -> None:
        """Write the record; a `hidden` that was set elsewhere since is kept."""
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
            return await self._bucket.create(key, value)
        return await self._bucket.update(key, value, revision=self._revision)

    async def _adopt_stored(self) -> None:
        entry = await self._bucket.get_from_leader(self.record.worker_id)
        if entry is None:
            return
        self._revision = entry.revision
        try:
            self.record.hidden = decode_worker(entry.value).hidden
        except msgspec.DecodeError:
            log.warning("the record of worker %s was not readable and is replaced", self.record.worker_id)
