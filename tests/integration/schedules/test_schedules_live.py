"""Schedules in a gateway with its own clock, and a worker that executes their runs."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.schedules.schedule_store import StoredSchedule
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.schedules.schedule_models import Overlap, ScheduleRecord, ScheduleSpec
from pyoco_server.runs.lifecycle.cancel_request import cancel_run
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.samples.schedules import a_schedule
from tests.support.waiting import eventually


async def _create(gateway: RunningGateway, **fields: Any) -> Callable[[], Awaitable[ScheduleRecord]]:
    """A schedule that ticks each second; a function that reads its record."""
    schedules = gateway.inside.schedules
    given = {"spec": ScheduleSpec(every_sec=1), "cursor": time.time(), "flow_name": "noop"}
    record = a_schedule("tick", **(given | fields))
    await schedules.runner.on_written(StoredSchedule(record, await schedules.store.create(record)))

    async def read() -> ScheduleRecord:
        found = await schedules.store.get_from_leader(record.key)
        assert found is not None
        return found.record

    return read


async def _has_started(read: Callable[[], Awaitable[ScheduleRecord]], count: int) -> ScheduleRecord:
    async def enough() -> ScheduleRecord | None:
        record = await read()
        return record if record.counts.get("started", 0) >= count and not record.starts else None

    return await eventually(enough, describe=f"{count} runs have started")


async def test_runs_start_by_themselves(config: NatsBackendConfig, gateway: RunningGateway) -> None:
    async with serving_worker(config):
        read = await _create(gateway, remaining_runs=3, overlap=Overlap.ALLOW_ALL)
        record = await _has_started(read, 3)
        times = [decision.scheduled_for for decision in record.decisions]
        assert [at - times[0] for at in times] == [0, 1, 2]
        for decision in record.decisions:
            run = await gateway.ends(str(decision.run_id))
            assert run["status"] == "COMPLETED"
            assert run["cause"] == {"kind": "schedule", "id": "tick", "at": decision.scheduled_for}
            assert run["submitted_at"] >= decision.scheduled_for
        assert (await read()).remaining_runs == 0


async def test_a_buffered_start_follows_the_earlier_run(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    """The end of the run reaches the schedule through the feed of runs."""
    release, started = tmp_path / "release", tmp_path / "started"
    params = {"path": str(release), "started": str(started)}
    async with serving_worker(config):
        read = await _create(
            gateway, flow_name="waiting", params=params, overlap=Overlap.BUFFER_ONE, remaining_runs=2
        )

        async def is_buffered() -> bool:
            return bool((await read()).buffer)

        await eventually(is_buffered, describe="an occurrence is buffered")
        await eventually(started.exists, describe="the run has started")
        assert (await read()).counts["started"] == 1
        release.touch()
        record = await _has_started(read, 2)
        assert [each.outcome for each in record.decisions if each.run_id] == ["started"] * 2


async def test_terminate_other_gives_the_earlier_run_no_grace_period(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    params = {"counter": str(tmp_path / "began"), "seconds": 600}
    async with serving_worker(config, concurrency=2):
        read = await _create(
            gateway, flow_name="counting", params=params, overlap=Overlap.TERMINATE_OTHER, remaining_runs=2
        )
        record = await _has_started(read, 2)
        first, second = [str(each.run_id) for each in record.decisions if each.outcome == "started"]
        ended = await gateway.ends(first)
        assert (ended["status"], ended["cancel_force"]) == ("CANCELLED", True)
        assert ended["cancel_requested_by"] == "schedule:tick"
        # The second one began after that.
        assert (await gateway.get(second))["submitted_at"] >= ended["end_time"]
        # It ignores cancels, and would keep its worker from stopping.
        connection = gateway.inside.connection
        await cancel_run(connection, RunStore(connection), second, ANYBODY, force=True)
        assert (await gateway.ends(second))["status"] == "CANCELLED"


async def test_a_failed_run_pauses_the_schedule(config: NatsBackendConfig, gateway: RunningGateway) -> None:
    async with serving_worker(config):
        read = await _create(gateway, flow_name="failing", pause_on_failure=True)

        async def is_paused() -> ScheduleRecord | None:
            record = await read()
            return record if record.paused else None

        record = await eventually(is_paused, describe="the schedule is paused")
        assert record.counts["started"] == 1
        assert "failed" in record.note
