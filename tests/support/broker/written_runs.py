"""A run that a test writes, revision by revision, instead of a worker."""

import time
from typing import Any

import pytest
from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.run_store import RunStore
from pyoco_server.records.models import RunSnapshot, RunStatus, pending_snapshot
from pyoco_server.runs.lifecycle.submission import new_job


class WrittenRun:
    """The run as it was written last."""

    def __init__(self, store: RunStore, snapshot: RunSnapshot, revision: int) -> None:
        self._store = store
        self.snapshot = snapshot
        self.revision = revision

    @property
    def run_id(self) -> str:
        return self.snapshot.run_id

    async def becomes(self, status: RunStatus, **fields: Any) -> None:
        self.snapshot = structs.replace(self.snapshot, status=status, updated_at=time.time(), **fields)
        self.revision = await self._store.replace(self.snapshot, revision=self.revision)

    async def loses_a_race(self, status: RunStatus) -> None:
        """A write that is announced, and refused: it is based on an older revision."""
        with pytest.raises(RevisionConflict):
            await self._store.replace(
                structs.replace(self.snapshot, status=status), revision=self.revision - 1
            )

    async def is_removed(self) -> None:
        await self._store.delete(self.run_id, revision=self.revision)


async def written(connection: Connection, **fields: Any) -> WrittenRun:
    """A PENDING run that is stored, and in no queue."""
    snapshot = pending_snapshot(new_job(**{"flow_name": "noop", "tag": "default", **fields}))
    store = RunStore(connection)
    return WrittenRun(store, snapshot, await store.create(snapshot))
