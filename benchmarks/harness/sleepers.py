"""Fills the buckets with runs that sleep, and with schedules: no worker has executed anything."""

import time
from collections.abc import Iterable
from typing import Final

from msgspec import structs

from benchmarks.harness.direct_writes import connected, for_each
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.schedules.schedule_store import ScheduleStore
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import (
    Job,
    RunSnapshot,
    TaskStatus,
    WaitKind,
    new_run_id,
    pending_snapshot,
)
from pyoco_server.records.schedules.schedule_models import ScheduleRecord, ScheduleSpec
from pyoco_server.records.waits.wait_models import WaitRecord, wait_id_of
from pyoco_server.runs.lifecycle.job_signatures import signatures_of
from pyoco_server.runs.lifecycle.prepared_run import prepare_run
from pyoco_server.runs.lifecycle.submission import new_job
from pyoco_server.runs.lifecycle.waiting_state import parked_snapshot

DELAYED_TAG: Final = "delayed"
SLEEPER_TAG: Final = "sleepers"

_TASK: Final = "nap"


async def seed_sleepers(config: NatsBackendConfig, deadlines: Iterable[float]) -> None:
    """One parked run for each of these times."""
    async with connected(config) as connection:
        runs, waits, signatures = RunStore(connection), WaitStore(connection), signatures_of(connection)

        async def store(deadline_at: float) -> None:
            run, wait = _sleeper(deadline_at)
            # The run first: a gateway closes the waits of a run that does not exist.
            await runs.create(structs.replace(run, signature=await signatures.sign(run)))
            await waits.create(wait)

        await for_each(store, deadlines)


async def seed_delayed_starts(config: NatsBackendConfig, count: int, start_at: float) -> None:
    """Runs that are to start at this time."""
    async with connected(config) as connection:
        runs = RunStore(connection)

        async def store(_: int) -> None:
            job = new_job(flow_name="delayed", tag=DELAYED_TAG, start_at=start_at)
            await runs.create((await prepare_run(connection, job)).snapshot)

        await for_each(store, range(count))


async def seed_schedules(config: NatsBackendConfig, count: int) -> None:
    """Schedules of which none is due soon: each once a year, at different hours."""
    async with connected(config) as connection:
        schedules, now = ScheduleStore(connection), time.time()

        async def store(number: int) -> None:
            spec = ScheduleSpec(cron=[f"{number % 60} {number % 24} 1 1 *"])
            await schedules.create(
                ScheduleRecord(
                    schedule_id=f"s-{number}",
                    incarnation="1",
                    created_at=now,
                    updated_at=now,
                    flow_name="noop",
                    spec=spec,
                    cursor=now,
                )
            )

        await for_each(store, range(count))


def _sleeper(deadline_at: float) -> tuple[RunSnapshot, WaitRecord]:
    now = time.time()
    job = Job(run_id=new_run_id(), flow_name="sleeper", tag=SLEEPER_TAG, submitted_at=now)
    node = f"{_TASK}||0"
    wait = WaitRecord(
        wait_id=wait_id_of(job.run_id, node, "sleep", 1),
        run_id=job.run_id,
        flow_name=job.flow_name,
        tag=job.tag,
        node=node,
        task=_TASK,
        name="sleep",
        message="sleep",
        kind=WaitKind.SLEEP,
        default=None,
        created_at=now,
        deadline_at=deadline_at,
    )
    started = structs.replace(pending_snapshot(job), start_time=now, attempt=1)
    return parked_snapshot(started, [wait], {_TASK: TaskStatus.WAITING}), wait
