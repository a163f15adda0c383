"""Bulk operations as a client uses them, and gateways that stop or crash."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.bulk_models import BulkItem, BulkRecord
from pyoco_server.records.runs.run_models import Job, RunStatus, pending_snapshot
from pyoco_server.runs.bulk.bulk_runner import StepResult
from pyoco_server.runs.lifecycle.submission import new_job
from tests.support.broker.stored_runs import signed
from tests.support.running.gateway import RunningGateway
from tests.support.waiting import eventually


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    """The lease of a killed gateway expires soon."""
    return replace(config, sweep_interval_sec=0.2)


async def dry_run(gateway: RunningGateway, path: str, query: Any = None, **options: Any) -> dict[str, Any]:
    response = await gateway.http.post(path, params=query, json={"dry_run": True, **options})
    assert response.status_code == 200, response.text
    counted: dict[str, Any] = response.json()
    assert (counted["dry_run"], counted["operation"]) == (True, None)
    return counted


async def start(gateway: RunningGateway, path: str, query: Any = None, **body: Any) -> dict[str, Any]:
    response = await gateway.http.post(path, params=query, json=body)
    assert response.status_code == 200, response.text
    started: dict[str, Any] = response.json()
    assert (started["dry_run"], started["token"]) == (False, None)
    operation: dict[str, Any] = started["operation"]
    return operation


async def get(gateway: RunningGateway, bulk_id: str) -> dict[str, Any]:
    response = await gateway.http.get(f"/bulk/{bulk_id}")
    assert response.status_code == 200, response.text
    record: dict[str, Any] = response.json()
    return record


async def ends(gateway: RunningGateway, operation: dict[str, Any]) -> dict[str, Any]:
    async def ended() -> dict[str, Any] | None:
        record = await get(gateway, operation["bulk_id"])
        return record if record["state"] != "RUNNING" else None

    return await eventually(ended, describe="the bulk operation has ended")


def counts(record: dict[str, Any]) -> tuple[str, int, int, int]:
    return record["state"], record["done"], record["skipped"], record["failed"]


async def ended_runs(gateway: RunningGateway, count: int, **fields: Any) -> set[str]:
    """Runs that have FAILED, as their workers would have written them; nothing is in the queue."""
    run_ids = set()
    jobs = [new_job(flow_name="chain", tag="default") for _ in range(count)]

    async def store(job: Job) -> None:
        ended = structs.replace(pending_snapshot(job), status=RunStatus.FAILED, **fields)
        await gateway.inside.runs.store.create(await signed(gateway.inside.connection, ended))
        run_ids.add(job.run_id)

    for start in range(0, count, 100):
        await asyncio.gather(*(store(job) for job in jobs[start : start + 100]))
    return run_ids


async def origins(gateway: RunningGateway, run_ids: Iterable[str]) -> Counter[str | None]:
    """How often each origin was rerun."""
    found: Counter[str | None] = Counter()
    for run_id in run_ids:
        stored = await gateway.inside.runs.store.get(run_id)
        assert stored is not None
        found[stored.snapshot.origin_run_id] += 1
    del found[None]
    return found


class HeldRunner:
    """Pauses a gateway before the item after so many others."""

    def __init__(self, gateway: RunningGateway, *, after: int) -> None:
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()
        self.taken = 0
        self._started = 0
        self._after = after
        steps = gateway.inside.bulk.runner._steps
        self._take = steps.take
        steps.take = self._held_take  # type: ignore[method-assign]

    async def _held_take(self, record: BulkRecord, item: BulkItem) -> StepResult:
        self._started += 1
        if self._started > self._after:
            self.reached.set()
            await self.go_on.wait()
        step = await self._take(record, item)
        self.taken += 1
        return step


@contextmanager
def without_lease(gateway: RunningGateway) -> Iterator[None]:
    """Keeps a gateway from executing bulk operations."""
    lease = gateway.inside.bulk.runner.lease
    hold = lease.hold

    async def not_yet() -> bool:
        return False

    lease.hold = not_yet  # type: ignore[method-assign]
    try:
        yield
    finally:
        lease.hold = hold  # type: ignore[method-assign]


async def crash(gateway: RunningGateway) -> None:
    """End its bulk operations as a kill would: nothing is recorded or released."""
    await gateway.inside.bulk.runner._loop.close()
