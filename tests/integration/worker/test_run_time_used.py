"""The used time of a run is counted by its owners, not by the clocks of two machines."""

import time
from dataclasses import replace

import pytest
from msgspec import UNSET, structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.stores.runs.run_store import RunStore, StoredRun
from pyoco_server.records.runs.run_models import (
    DeliveryId,
    Job,
    RunSnapshot,
    RunStatus,
    decode_snapshot,
    encode,
    pending_snapshot,
)
from pyoco_server.runs.lifecycle import ownership
from pyoco_server.runs.lifecycle.ownership import OwnedRun, claim
from pyoco_server.runs.lifecycle.submission import new_job
from tests.support.clocks import ShiftedMonotonic, shifted_monotonic
from tests.support.running.gateway import RunningGateway
from tests.support.running.sweeping import CrashedWorker
from tests.support.running.workers import serving_worker

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOUR_SEC = 3600.0


class MeasuredStore(RunStore):
    """Runs whose last write was so long ago, by the server's clock."""

    age = 0.0

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.connection = connection

    async def age_sec(self, stored: StoredRun) -> float:
        assert stored.timestamp
        return self.age


@pytest.fixture
def store(shared_connection: Connection) -> MeasuredStore:
    return MeasuredStore(shared_connection)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ShiftedMonotonic:
    """That of a worker."""
    return shifted_monotonic(monkeypatch, ownership)


async def limited_job(store: RunStore, **fields: object) -> Job:
    job = new_job(flow_name="flow", tag="default", timeout_sec=100 * HOUR_SEC)
    await store.create(structs.replace(pending_snapshot(job), **fields))
    return job


async def claimed(store: MeasuredStore, job: Job, delivery: tuple[int, int]) -> OwnedRun:
    return await claim(
        store,
        WorkQueue(store.connection),
        job,
        delivery=DeliveryId(*delivery),
        expected_revision=None,
        worker_id="w",
        max_bytes=100_000,
    )


async def stored(store: RunStore, job: Job) -> RunSnapshot:
    found = await store.get_from_leader(job.run_id)
    assert found is not None
    return found.snapshot


def unchanged(snapshot: RunSnapshot) -> RunSnapshot:
    return snapshot


# Nothing here takes half an hour.
def hours(seconds: float | object) -> int:
    assert isinstance(seconds, float)
    return round(seconds / HOUR_SEC)


async def test_a_worker_with_a_clock_ahead_does_not_end_a_run_that_it_takes_over(
    shared_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    brief = replace(shared_gateway.inside.config, consumer_ack_wait_sec=1.0)
    run_id = await shared_gateway.submit("noop", timeout_sec=HOUR_SEC)
    await CrashedWorker(brief).take()
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + 2 * HOUR_SEC)
    async with serving_worker(brief):
        run = await shared_gateway.ends(run_id)
    assert (run["status"], run["attempt"]) == ("COMPLETED", 2), run["error"]


async def test_every_write_of_the_owner_has_the_used_time(
    store: MeasuredStore, clock: ShiftedMonotonic
) -> None:
    job = await limited_job(store)
    owned = await claimed(store, job, (1, 1))
    assert hours((await stored(store, job)).used_sec) == 0
    clock.ahead_sec += 2 * HOUR_SEC
    await owned.write(unchanged)
    assert hours((await stored(store, job)).used_sec) == 2
    clock.ahead_sec += HOUR_SEC
    assert hours(owned.used_sec) == 3


async def test_time_without_an_owner_counts_by_the_clock_of_the_server(
    store: MeasuredStore, clock: ShiftedMonotonic
) -> None:
    job = await limited_job(store)
    first = await claimed(store, job, (1, 1))
    clock.ahead_sec += 2 * HOUR_SEC
    await first.write(unchanged)
    store.age = 5 * HOUR_SEC
    second = await claimed(store, job, (1, 2))
    assert hours(second.used_sec) == 7
    # Stored at once: the owner may die before its first heartbeat.
    assert hours((await stored(store, job)).used_sec) == 7


async def test_time_waiting_for_people_does_not_count(store: MeasuredStore) -> None:
    store.age = 5 * HOUR_SEC
    job = await limited_job(store, status=RunStatus.WAITING_HUMAN, start_time=1.0, used_sec=2 * HOUR_SEC)
    owned = await claimed(store, job, (1, 1))
    assert hours(owned.used_sec) == 2


async def test_a_run_of_an_older_worker_is_counted_by_its_heartbeats(store: MeasuredStore) -> None:
    older = {"heartbeat_at": 9 * HOUR_SEC, "start_time": HOUR_SEC, "waited_sec": 3 * HOUR_SEC}
    job = await limited_job(store, status=RunStatus.RUNNING, delivery=DeliveryId(1, 1), attempt=1, **older)
    assert (await stored(store, job)).used_sec is UNSET
    store.age = HOUR_SEC
    owned = await claimed(store, job, (1, 2))
    assert hours(owned.used_sec) == 6


async def test_a_run_that_was_not_started_has_used_no_time(
    store: MeasuredStore, clock: ShiftedMonotonic
) -> None:
    job = await limited_job(store)
    owned = await claimed(store, job, (1, 1))
    clock.ahead_sec += HOUR_SEC
    await owned.unclaim()
    assert (await stored(store, job)).used_sec is UNSET


async def test_a_run_without_a_limit_is_not_counted(store: MeasuredStore) -> None:
    job = new_job(flow_name="flow", tag="default")
    await store.create(pending_snapshot(job))
    owned = await claimed(store, job, (1, 1))
    await owned.write(unchanged)
    snapshot = await stored(store, job)
    assert snapshot.used_sec is UNSET
    assert b"used_sec" not in encode(snapshot)
    assert decode_snapshot(encode(snapshot)) == snapshot


async def test_the_age_of_a_write_is_measured_by_the_server_alone(
    shared_connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RunStore(shared_connection)
    job = await limited_job(store)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    for read in (store.get, store.get_from_leader):
        found = await read(job.run_id)
        assert found is not None
        assert found.timestamp
        assert hours(await store.age_sec(found)) == 0
        ago = structs.replace(found, timestamp="2020-01-01T00:00:00.123456789Z")
        assert hours(await store.age_sec(ago)) > 1000
