"""Runs that a test writes into the bucket, in any state, without workers."""

import asyncio
import time
from typing import Any

import pytest
from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus, pending_snapshot
from pyoco_server.runs.lifecycle.job_signatures import signatures_of
from pyoco_server.runs.lifecycle.submission import new_job


def snapshot(**fields: Any) -> RunSnapshot:
    """A run as it was submitted, with these fields instead of its own."""
    submitted = {name: fields.pop(name) for name in ("flow_name", "tag", "tags", "params") if name in fields}
    job = new_job(**{"flow_name": "noop", "tag": "default", **submitted})
    return structs.replace(pending_snapshot(job), **fields)


def ended(status: RunStatus = RunStatus.COMPLETED, *, at: float = 1000.0, **fields: Any) -> RunSnapshot:
    times = {"submitted_at": at - 2, "start_time": at - 1, "end_time": at, "updated_at": at}
    return snapshot(**{"status": status, **times, **fields})


async def signed(connection: Connection, run: RunSnapshot) -> RunSnapshot:
    """As the gateway that accepted it has signed it."""
    return structs.replace(run, signature=await signatures_of(connection).sign(run))


async def write(store: RunStore, *runs: RunSnapshot) -> list[str]:
    """Their ids, in the order in which they were written."""
    for run in runs:
        await store.create(run)
    return [run.run_id for run in runs]


async def write_many(connection: Connection, runs: list[RunSnapshot]) -> None:
    """Signed, in any order, and fast."""
    store = RunStore(connection)
    for start in range(0, len(runs), 200):
        group = [await signed(connection, run) for run in runs[start : start + 200]]
        await asyncio.gather(*(store.create(run) for run in group))


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
    store, run = RunStore(connection), await signed(connection, snapshot(**fields))
    return WrittenRun(store, run, await store.create(run))
