"""A schedule whose record is as large as NATS accepts goes on: each write that may grow it makes room."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.errors import RunConflict, ScheduleFull
from pyoco_server.records.schedules.schedule_models import Overlap, ScheduledStart, StartedBy, encode_schedule
from pyoco_server.runs.lifecycle.durable_start import DurableStarter
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.schedules.schedule_service import ScheduleName, ScheduleService
from tests.support.running.schedule_gateways import START, ScheduleGateway, ScheduleWorld, schedule_world

TICK = ScheduleName("tick", ANYBODY)
WAITING = 30


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def world(empty_connection: Connection) -> AsyncIterator[ScheduleWorld]:
    async with schedule_world(empty_connection) as world:
        yield world


async def full_schedule(
    world: ScheduleWorld, monkeypatch: pytest.MonkeyPatch, *, room: int, **fields: Any
) -> ScheduleGateway:
    """A schedule with an open run and triggers that wait for it; NATS accepts so many bytes more."""
    await world.create(**fields)
    gateway = await world.gateway()
    await gateway.look(10.5)
    stored = await world.stored()
    waiting = [
        ScheduledStart(
            run_id=f"00000000-0000-4000-8000-{number:012}",
            scheduled_for=START + 10 + number / 1000,
            decided_at=START,
            by=StartedBy.TRIGGER,
            overlap=Overlap.BUFFER_ALL,
            params={"text": "x" * 1000},
        )
        for number in range(WAITING)
    ]
    record = structs.replace(stored.record, buffer=waiting)
    await world.store.replace(record, revision=stored.revision)
    await gateway.directory.feed.caught_up()
    most = len(encode_schedule(record)) + room
    monkeypatch.setattr(Connection, "max_record_bytes", property(lambda _: most))
    return gateway


async def made_room(world: ScheduleWorld) -> None:
    """The newest that waited are skipped, with their number."""
    record = await world.record()
    assert len(record.buffer) < WAITING
    [dropped] = [each for each in record.decisions if each.reason == "buffer_full"]
    assert dropped.count == record.counts["skipped"] - _skipped_by_overlap(record.decisions)
    assert "larger than NATS accepts" in (dropped.detail or "")


def _skipped_by_overlap(decisions: Any) -> int:
    return sum(each.count for each in decisions if each.reason == "overlap")


async def test_the_next_occurrence_is_decided(world: ScheduleWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = await full_schedule(world, monkeypatch, room=50)
    await gateway.look(20.5)
    assert gateway.runner.problems == {}
    assert (await world.record()).cursor == START + 20
    await made_room(world)


async def test_a_start_that_fails_is_recorded(world: ScheduleWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = await full_schedule(world, monkeypatch, room=1500, overlap=Overlap.ALLOW_ALL)

    async def refuse(*_: Any) -> None:
        raise RunConflict("x" * 3000)

    monkeypatch.setattr(DurableStarter, "ensure_run", refuse)
    await gateway.look(20.5)
    assert gateway.runner.problems == {}
    assert (await world.record()).starts == []
    await made_room(world)


async def test_a_person_can_pause_it(world: ScheduleWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = await full_schedule(world, monkeypatch, room=50)
    service = ScheduleService(world.store, gateway.runner, clock=world.clock.now)
    paused = await service.pause(TICK, "x" * 900)
    assert paused.record.paused
    await made_room(world)


async def test_a_trigger_that_would_fill_it_is_refused(
    world: ScheduleWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = await full_schedule(world, monkeypatch, room=1500)
    service = ScheduleService(world.store, gateway.runner, clock=world.clock.now)
    with pytest.raises(ScheduleFull, match="pass a reference to large data"):
        await service.trigger(TICK, overlap=Overlap.BUFFER_ALL)
    assert len((await world.record()).buffer) == WAITING
