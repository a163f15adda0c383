"""Waiting runs, written to the buckets by the test, without a worker."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import read_batch
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.wait_event_log import WaitEventLog
from pyoco_server.broker.stores.waits.wait_store import StoredWait, WaitStore
from pyoco_server.errors import WaitExpired
from pyoco_server.records.runs.run_models import Job, RunSnapshot, RunStatus, TaskStatus, decode_job
from pyoco_server.records.waits.wait_models import (
    Actor,
    WaitEvent,
    WaitEventKind,
    WaitRecord,
)
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.runs.lifecycle.waiting_state import parked_snapshot
from pyoco_server.waits.human.answers.answering import Answer, AnswerHandler
from pyoco_server.waits.wait_transitions import event_of
from tests.support.broker.stored_runs import signed, snapshot
from tests.support.broker.stored_waits import a_wait
from tests.support.waiting import eventually

PLACES = ("approve", "check", "sign", "pay", "send", "file", "tell", "keep", "post", "end")


def wait_of(
    run: RunSnapshot, task: str = "approve", *, timeout_sec: float = 3600.0, **fields: Any
) -> WaitRecord:
    """An open wait of this run, created now."""
    given: dict[str, Any] = {
        "name": "human",
        "flow_name": run.flow_name,
        "tag": run.tag,
        "tenant_id": run.tenant_id,
        "node": f"{task}||1",
        "task": task,
        "message": f"May I {task}?",
        "deadline_at": time.time() + timeout_sec,
    }
    return a_wait(run.run_id, **{**given, **fields})


@dataclass
class WaitingRun:
    """A run as it was when it was suspended."""

    connection: Connection
    snapshot: RunSnapshot
    waits: list[WaitRecord] = field(default_factory=list)

    @property
    def run_id(self) -> str:
        return self.snapshot.run_id

    @property
    def wait_id(self) -> str:
        [wait] = self.waits
        return wait.wait_id

    async def now(self) -> RunSnapshot:
        stored = await RunStore(self.connection).get_from_leader(self.run_id)
        assert stored is not None
        return stored.snapshot

    async def stored(self, wait_id: str | None = None) -> StoredWait:
        stored = await WaitStore(self.connection).get_from_leader(wait_id or self.wait_id)
        assert stored is not None
        return stored

    async def wait(self, wait_id: str | None = None) -> WaitRecord:
        return (await self.stored(wait_id)).record

    async def states(self) -> list[str]:
        """Of the waits, in the order in which they were opened."""
        return [(await self.wait(wait.wait_id)).state.value for wait in self.waits]

    async def events(self) -> list[WaitEvent]:
        return await wait_events_of(self.connection, self.run_id)

    async def kinds(self) -> list[str]:
        return [event.kind.value for event in await self.events()]

    async def has_kinds(self, *kinds: str) -> None:
        """Wait until its waits have these events."""

        async def there() -> bool:
            return await self.kinds() == list(kinds)

        await eventually(there, describe=f"the events are {', '.join(kinds)}")

    async def jobs(self) -> list[Job]:
        """Its jobs in the queue."""
        return [job for job in await jobs_in_queue(self.connection) if job.run_id == self.run_id]

    async def expires(self, wait: WaitRecord | None = None) -> None:
        """One of its waits (the first) is answered at its deadline, which is too late."""
        late = wait or self.waits[0]
        answers = AnswerHandler(self.connection, clock=lambda: late.deadline_at)
        with pytest.raises(WaitExpired):
            await answers.respond(late.wait_id, Answer(payload=1), ANYBODY, Actor(name="ann"))

    async def has_jobs(self, count: int = 1) -> None:
        """Wait until so many of its jobs are in the queue."""

        async def there() -> bool:
            return len(await self.jobs()) == count

        await eventually(there, describe=f"{count} jobs of the run are in the queue")

    async def has_states(self, *states: str) -> None:
        """Wait until its waits have these states."""

        async def there() -> bool:
            return await self.states() == list(states)

        await eventually(there, describe=f"the waits are {', '.join(states)}")

    async def ends(self) -> None:
        async def over() -> bool:
            return (await self.now()).status.terminal

        await eventually(over, describe="the run is over")

    async def becomes(self, **fields: Any) -> None:
        """Another writer changes the run."""
        store = RunStore(self.connection)
        stored = await store.get_from_leader(self.run_id)
        assert stored is not None
        await store.replace(structs.replace(stored.snapshot, **fields), revision=stored.revision)


async def wait_events_of(connection: Connection, run_id: str) -> list[WaitEvent]:
    """The events of all waits of the run, in the order in which they were stored."""
    return await WaitEventLog(connection)._read(f"{connection.config.wait_event_subject_prefix}.{run_id}.*.*")


async def jobs_in_queue(connection: Connection) -> list[Job]:
    found: list[Job] = []
    after = 0
    while batch := await read_batch(connection, connection.config.work_stream, "pyoco.work.>", after=after):
        found += [decode_job(message.data) for message in batch]
        after = batch[-1].sequence
    return found


async def waiting_run(
    connection: Connection, *waits: dict[str, Any], suspended: bool = True, **fields: Any
) -> WaitingRun:
    """A run with these waits; RUNNING unless it is suspended."""
    begun = await signed(connection, snapshot(status=RunStatus.RUNNING, start_time=time.time(), **fields))
    asked = [
        wait_of(begun, **{"task": task, **wait}) for task, wait in zip(PLACES, waits or ({},), strict=False)
    ]
    run = begun
    if suspended:
        run = parked_snapshot(begun, asked, {wait.task: TaskStatus.WAITING for wait in asked})
    store = WaitStore(connection)
    events = WaitEventLog(connection)
    # The run first: a gateway cancels the waits of a run that does not exist.
    await RunStore(connection).create(run)
    await asyncio.gather(
        *(store.create(wait) for wait in asked),
        *(events.publish(event_of(wait, WaitEventKind.OPENED)) for wait in asked),
    )
    return WaitingRun(connection, run, asked)
