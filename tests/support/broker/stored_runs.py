"""Runs that a test writes into the bucket, in any state, without workers."""

import asyncio
from typing import Any

from msgspec import structs

from pyoco_server.broker.stores.run_store import RunStore
from pyoco_server.records.models import RunSnapshot, RunStatus, pending_snapshot
from pyoco_server.runs.lifecycle.submission import new_job


def snapshot(**fields: Any) -> RunSnapshot:
    """A run as it was submitted, with these fields instead of its own."""
    submitted = {name: fields.pop(name) for name in ("flow_name", "tag", "tags", "params") if name in fields}
    job = new_job(**{"flow_name": "noop", "tag": "default", **submitted})
    return structs.replace(pending_snapshot(job), **fields)


def ended(status: RunStatus = RunStatus.COMPLETED, *, at: float = 1000.0, **fields: Any) -> RunSnapshot:
    times = {"submitted_at": at - 2, "start_time": at - 1, "end_time": at, "updated_at": at}
    return snapshot(**{"status": status, **times, **fields})


async def write(store: RunStore, *runs: RunSnapshot) -> list[str]:
    """Their ids, in the order in which they were written."""
    for run in runs:
        await store.create(run)
    return [run.run_id for run in runs]


async def write_many(store: RunStore, runs: list[RunSnapshot]) -> None:
    """In any order, and fast."""
    for start in range(0, len(runs), 200):
        await asyncio.gather(*(store.create(run) for run in runs[start : start + 200]))
