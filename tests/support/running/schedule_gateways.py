"""The part of a gateway that runs schedules, with a clock that a test moves."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.schedules.schedule_store import ScheduleStore, StoredSchedule
from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus
from pyoco_server.records.schedules.schedule_models import ScheduleRecord, ScheduleSpec, schedule_key
from pyoco_server.schedules.schedule_directory import ScheduleDirectory
from pyoco_server.schedules.schedule_runner import ScheduleRunner
from tests.support.samples.schedules import a_schedule

# A multiple of an hour, in the future: the real clock does not matter.
START = 2_000_001_600.0


@dataclass
class TestClock:
    __test__ = False

    at: float = START

    def now(self) -> float:
        return self.at


@dataclass
class ScheduleGateway:
    connection: Connection
    clock: TestClock
    directory: ScheduleDirectory
    runner: ScheduleRunner

    async def look(self, at: float | None = None) -> None:
        """Do what is due, `at` seconds after START."""
        if at is not None:
            self.clock.at = START + at
        await self.directory.feed.caught_up()
        next_at: float | None = self.clock.at
        while next_at is not None and next_at <= self.clock.at:
            next_at = await self.runner.run_due(self.clock.at)


class ScheduleWorld:
    """Gateways on one NATS, and what they have stored."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.store = ScheduleStore(connection)
        self.runs = RunStore(connection)
        self.clock = TestClock()
        self._open = AsyncExitStack()

    async def gateway(self) -> ScheduleGateway:
        directory = ScheduleDirectory(self.connection, clock=self.clock.now)
        runner = ScheduleRunner(self.connection, directory, clock=self.clock.now)
        await directory.start()
        self._open.push_async_callback(directory.close)
        await directory.feed.caught_up()
        return ScheduleGateway(self.connection, self.clock, directory, runner)

    async def close(self) -> None:
        await self._open.aclose()

    async def create(self, schedule_id: str = "tick", *, every_sec: float = 10, **fields: Any) -> str:
        """A schedule that begins at START; its key."""
        given = {"flow_name": "noop", "spec": ScheduleSpec(every_sec=every_sec), "cursor": START}
        record = a_schedule(schedule_id, **(given | fields))
        await self.store.create(record)
        return record.key

    async def record(self, key: str = schedule_key(None, "tick")) -> ScheduleRecord:
        return (await self.stored(key)).record

    async def stored(self, key: str = schedule_key(None, "tick")) -> StoredSchedule:
        found = await self.store.get_from_leader(key)
        assert found is not None
        return found

    async def started(self, key: str = schedule_key(None, "tick")) -> list[RunSnapshot]:
        """The runs that its decisions name as started."""
        ids = [each.run_id for each in (await self.record(key)).decisions if each.outcome == "started"]
        return [await self.run(run_id) for run_id in ids if run_id is not None]

    async def run(self, run_id: str) -> RunSnapshot:
        found = await self.runs.get_from_leader(run_id)
        assert found is not None, f"run {run_id} is not stored"
        return found.snapshot

    async def run_becomes(self, run_id: str, status: RunStatus) -> None:
        found = await self.runs.get_from_leader(run_id)
        assert found is not None
        await self.runs.replace(structs.replace(found.snapshot, status=status), revision=found.revision)


@asynccontextmanager
async def schedule_world(connection: Connection) -> AsyncIterator[ScheduleWorld]:
    world = ScheduleWorld(connection)
    try:
        yield world
    finally:
        await world.close()
