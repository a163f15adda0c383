"""Worker records at rest: the worker writes what it does and keeps the `hidden` that a gateway wrote."""

import logging

import msgspec

from pyoco_server.broker.connection import Connection
from pyoco_server.broker.kv import Bucket
from pyoco_server.broker.publishing import RevisionConflict
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
        # The instance id of another living worker that uses our id, if there is one.
        self.rival: str | None = None
        self._has_written = False

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
        self._look_for_rival(stored)

    def _look_for_rival(self, stored: WorkerRecord) -> None:
        """A record that another instance has written since our last write is shared with a living worker."""
        is_other = stored.instance_id not in {self.record.instance_id, self.rival}
        if is_other and self._has_written:
            self.rival = stored.instance_id
            log.warning(
                "another worker uses the id %s as well; give each one its own (--worker-id)", stored.worker_id
            )
