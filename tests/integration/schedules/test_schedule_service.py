"""What people do with a schedule while a gateway decides about it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from pyoco_server.broker.client.connection import Connection
from pyoco_server.errors import BackfillNotFound, NatsUnavailable, ScheduleConflict
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.schedules.schedule_models import DecisionOutcome, Overlap
from pyoco_server.runs.lifecycle.idempotency import keyed_command
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.schedules.repeated_requests import MAX_REQUESTS, with_request
from pyoco_server.schedules.schedule_runner import ScheduleRunner
from pyoco_server.schedules.schedule_service import ScheduleName, ScheduleService
from pyoco_server.schedules.schedule_transitions import CancelledBackfill
from tests.support.running.schedule_gateways import START, ScheduleGateway, ScheduleWorld, schedule_world

TICK = ScheduleName("tick", ANYBODY)


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def world(empty_connection: Connection) -> AsyncIterator[ScheduleWorld]:
    async with schedule_world(empty_connection) as world:
        yield world


def service_of(gateway: ScheduleGateway, world: ScheduleWorld) -> ScheduleService:
    return ScheduleService(world.store, gateway.runner, clock=world.clock.now)


async def test_a_backfill_begins_at_once_although_an_earlier_run_was_open(world: ScheduleWorld) -> None:
    await world.create(paused=True)
    gateway = await world.gateway()
    service = service_of(gateway, world)
    started = await service.trigger(TICK)
    assert started.outcome is DecisionOutcome.STARTED
    await gateway.look()
    await world.run_becomes(started.run_id, RunStatus.COMPLETED)
    assert (await service.backfill(TICK, from_at=START - 20, to_at=START)).count == 2
    await gateway.look()
    assert len(await world.started()) == 2


async def test_a_run_that_is_decided_before_a_change_has_the_old_params(
    world: ScheduleWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.create(params={"day": "old"}, overlap="allow_all")
    service = service_of(await world.gateway(), world)

    async def unavailable(*_: Any) -> None:
        raise NatsUnavailable("away")

    with monkeypatch.context() as away:
        away.setattr(ScheduleRunner, "settle", unavailable)
        # The run is decided: its id is returned, and it starts when NATS is there again.
        run_id = (await service.trigger(TICK)).run_id
    assert [start.run_id for start in (await world.record()).starts] == [run_id]
    await service.patch(TICK, {"params": {"day": "new"}}, {}, revision=1)
    assert (await world.run(run_id)).params == {"day": "old"}
    assert (await world.record()).starts == []
    later = (await service.trigger(TICK)).run_id
    assert (await world.run(later)).params == {"day": "new"}


async def test_people_and_gateways_write_at_once(world: ScheduleWorld) -> None:
    await world.create(every_sec=1)
    gateways = [await world.gateway() for _ in range(2)]
    services = [service_of(gateway, world) for gateway in gateways]

    async def change(number: int) -> None:
        await services[number % 2].patch(TICK, {"note": str(number)}, {}, revision=None)

    changes = [change(number) for number in range(10)]
    await asyncio.gather(*changes, *(gateway.look(10) for gateway in gateways))
    record = await world.record()
    assert record.revision == 11
    assert record.counts == {"started": 1, "skipped": 9}


async def test_of_two_changes_with_one_revision_one_is_refused(world: ScheduleWorld) -> None:
    await world.create()
    service = service_of(await world.gateway(), world)
    changes = [service.patch(TICK, {"note": note}, {}, revision=1) for note in ("a", "b")]
    results = await asyncio.gather(*changes, return_exceptions=True)
    assert [type(each) for each in results].count(ScheduleConflict) == 1
    assert (await world.record()).revision == 2


async def test_one_trigger_although_two_gateways_receive_it(world: ScheduleWorld) -> None:
    await world.create(paused=True, overlap="allow_all")
    services = [service_of(await world.gateway(), world) for _ in range(2)]
    request = keyed_command("k1", None, "trigger")
    sent = [service.trigger(TICK, request=request) for service in services for _ in range(3)]
    results = await asyncio.gather(*sent)
    assert len({each.run_id for each in results}) == 1
    assert [each.replayed for each in results].count(False) == 1
    assert len(await world.started()) == 1


async def test_a_forgotten_key_starts_no_second_run(world: ScheduleWorld) -> None:
    await world.create(paused=True, overlap="allow_all")
    service = service_of(await world.gateway(), world)
    keys = [keyed_command(f"k{number}", None) for number in range(MAX_REQUESTS + 1)]
    first = await service.trigger(TICK, request=keys[0])
    record = await world.record()
    for key in keys[1:]:
        record = with_request(record, key, now=START)
    stored = await world.store.get_from_leader(record.key)
    assert stored is not None
    await world.store.replace(record, revision=stored.revision)
    again = await service.trigger(TICK, request=keys[0])
    assert (again.run_id, again.replayed) == (first.run_id, False)
    assert len((await world.record()).requests) == MAX_REQUESTS
    assert len(await world.started()) == 1


async def test_a_schedule_is_deleted_while_it_is_decided(world: ScheduleWorld) -> None:
    key = await world.create(every_sec=1)
    gateway = await world.gateway()
    service = service_of(gateway, world)
    await asyncio.gather(gateway.look(5), service.delete(TICK, revision=None))
    assert await world.store.get_from_leader(key) is None
    assert gateway.directory.get(key) is None


async def test_a_backfill_is_cancelled_once_while_gateways_start_its_runs(world: ScheduleWorld) -> None:
    await world.create(paused=True)
    gateways = [await world.gateway() for _ in range(2)]
    services = [service_of(gateway, world) for gateway in gateways]
    done = await services[0].backfill(TICK, from_at=START - 5000, to_at=START, overlap=Overlap.ALLOW_ALL)
    assert done.backfill_id is not None
    cancels = [service.cancel_backfill(TICK, done.backfill_id) for service in services for _ in range(2)]
    looks = asyncio.gather(*(gateway.look() for gateway in gateways))
    results = await asyncio.gather(*cancels, return_exceptions=True)
    await looks
    [cancelled] = [each for each in results if isinstance(each, CancelledBackfill)]
    assert [type(each) for each in results].count(BackfillNotFound) == 3
    assert cancelled.started + cancelled.skipped == 500
    # Nothing starts any more, and what had started is there.
    for gateway in gateways:
        await gateway.look(60)
    record = await world.record()
    assert record.counts.get("started", 0) == cancelled.started
    assert (record.counts["skipped"], record.backfills, record.starts) == (cancelled.skipped, [], [])
    for run in await world.started():
        assert run.status is RunStatus.PENDING
