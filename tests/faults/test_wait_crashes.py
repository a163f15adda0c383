"""Answers and deadlines while no worker or no gateway runs, or while several do; the jobs of waiting runs."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.broker.queue.advisories import ExhaustedJob
from pyoco_server.broker.queue.intake import Intake
from pyoco_server.broker.queue.queued_runs import QueuedRuns
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunStatus, encode, job_of
from pyoco_server.runs.lifecycle.unowned_runs import UnownedRuns
from pyoco_server.runs.open_runs import OpenRuns
from pyoco_server.runs.sweep.exhausted_deliveries import ExhaustedDeliveries, UndeliverableJobs
from pyoco_server.runs.sweep.sweep_rules import SilenceThresholds
from tests.support.broker.connections import connected
from tests.support.broker.stored_waits import let_expire
from tests.support.broker.waits_in_bucket import SeenRuns
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.waiting_runs import wait_events_of, waiting_run
from tests.support.running.workers import serving_worker
from tests.support.waiting import LIMIT_SEC, eventually


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(config, sweep_interval_sec=0.2)


async def waits(gateway: RunningGateway, notes: Path, **params: Any) -> dict[str, Any]:
    run_id = await gateway.submit("approval", params={"notes": str(notes), **params})
    return await gateway.reaches(run_id, "WAITING_HUMAN")


async def has_events(gateway: RunningGateway, run_id: str, expected: list[str]) -> None:
    """What a process that died had no time to publish is published later."""

    async def published() -> bool:
        events = await wait_events_of(gateway.inside.connection, run_id)
        return [event.kind.value for event in events] == expected

    await eventually(published, describe=f"the events are {expected}")


async def test_an_answer_waits_for_a_worker_as_long_as_it_takes(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    """Published, and nobody is there to claim it."""
    notes = tmp_path / "notes"
    async with serving_worker(config):
        run = await waits(gateway, notes)
    await gateway.http.post("/resume", json={"runId": run["run_id"], "payload": {}})
    care = gateway.inside.waits.maintenance
    goal = care.rounds + 8
    await eventually(lambda: care.rounds > goal, describe="the maintenance has looked often")
    queue = await stream_state(gateway.inside.connection, config.work_stream)
    assert queue.messages == 1
    async with serving_worker(config):
        assert (await gateway.ends(run["run_id"]))["status"] == "COMPLETED"
    assert notes.read_text().split() == ["prepare", "tell", "pay"]


@asynccontextmanager
async def two_gateways(config: NatsBackendConfig, folder: Path) -> AsyncIterator[list[RunningGateway]]:
    other = replace(config, index_dir=str(folder / "other-index"))
    async with running_gateway(config) as one, running_gateway(other) as two:
        yield [one, two]


async def test_a_deadline_that_passes_while_nobody_is_there_is_one_expiry(
    config: NatsBackendConfig, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    async with running_gateway(config) as gateway, serving_worker(config):
        await gateway.inside.waits.maintenance.close()
        run = await waits(gateway, notes, timeout_ms=600_000)
    assert time.time() < run["wait_deadline_at"], "too slow to see anything"
    async with connected(config) as connection:
        await let_expire(WaitStore(connection), run["open_waits"][0]["wait_id"])
    async with two_gateways(config, tmp_path) as gateways:
        for gateway in gateways:
            ended = await gateway.ends(run["run_id"])
            assert (ended["status"], ended["reason"]) == ("FAILED", "human_timeout")
        connection = gateways[0].inside.connection
        assert (await stream_state(connection, config.dlq_stream)).messages == 1
        await has_events(gateways[0], run["run_id"], ["opened", "expired"])


async def test_a_sleep_that_ends_while_nobody_is_there_wakes_once(
    config: NatsBackendConfig, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    async with running_gateway(config) as gateway, serving_worker(config):
        run_id = await gateway.submit("nap", params={"notes": str(notes)})
        run = await gateway.reaches(run_id, "WAITING")
    async with connected(config) as connection:
        await let_expire(WaitStore(connection), run["open_waits"][0]["wait_id"])
    async with two_gateways(config, tmp_path) as gateways, serving_worker(config):
        for gateway in gateways:
            ended = await gateway.ends(run_id)
            assert (ended["status"], ended["generation"], ended["attempt"]) == ("COMPLETED", 1, 1)
        connection = gateways[0].inside.connection
        assert (await stream_state(connection, config.work_stream)).messages == 0
    assert notes.read_text().split() == ["prepare", "tell", "pay"]


async def test_two_gateways_take_one_answer(config: NatsBackendConfig, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with two_gateways(config, tmp_path) as gateways, serving_worker(config):
        run = await waits(gateways[0], notes)
        path = f"/waits/{run['open_waits'][0]['wait_id']}/respond"
        answers = await asyncio.gather(
            *(
                gateway.http.post(path, json={"payload": {"from": number}, "decision_id": f"d{number}"})
                for number, gateway in enumerate(gateways)
            )
        )
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        [winner] = [number for number, answer in enumerate(answers) if answer.status_code == 200]
        assert answers[1 - winner].json()["error"] == "already_decided"
        await gateways[1].ends(run["run_id"])
        records = (await gateways[0].get(run["run_id"], include="records"))["task_records"]
    assert records["pay"]["output"]["answer"] == {"from": winner}
    assert notes.read_text().split() == ["prepare", "tell", "pay"]


# What the sweep knows of runs that wait


async def test_a_job_that_was_given_up_does_not_end_a_run_that_waits_since(config: NatsBackendConfig) -> None:
    """Its worker was killed at the last delivery, between writing that the run waits and acknowledging."""
    async with connected(config) as connection:
        run = await waiting_run(connection)
        before = encode(structs.replace(job_of(run.snapshot, None), generation=0))
        sequence = await publish_acked(connection, "pyoco.work.default", before)
        unowned_runs = UnownedRuns(connection)
        last = UndeliverableJobs(unowned_runs, QueuedRuns(connection))
        given_up = ExhaustedDeliveries(unowned_runs, OpenRuns(), last, SilenceThresholds.of(config))
        assert await given_up.settle(ExhaustedJob(1, sequence, 20))
        assert await run.now() == run.snapshot
        assert await run.jobs() == []
        # Of this generation it is the run's own job, which no worker has begun: there is a new one instead.
        own = await publish_acked(connection, "pyoco.work.default", encode(job_of(run.snapshot, None)))
        intake = Intake(connection, ["default"])
        await intake.start()
        async with asyncio.timeout(LIMIT_SEC):
            assert (await intake.take()).stream_seq == own
        assert await given_up.settle(ExhaustedJob(2, own, 20))
        assert await run.now() == run.snapshot
        assert [job.generation for job in await run.jobs()] == [run.snapshot.generation]
        assert await WorkQueue(connection).message(own) is None
        await intake.close()


async def test_the_job_of_a_run_that_begins_to_wait_is_not_missed_in_the_queue(
    config: NatsBackendConfig,
) -> None:
    """Else all of the queue would be read again for each run that waits."""
    async with connected(config) as connection:
        runs, queued = SeenRuns(connection), QueuedRuns(connection)
        runs.on_parked(queued.forget_before)
        begun = await waiting_run(connection, suspended=False)
        await queued.compare(await queued.count())
        await publish_acked(connection, "pyoco.work.default", encode(job_of(begun.snapshot, None)))
        async for _ in queued.read():
            pass
        await runs.look()
        assert queued.is_queued(begun.run_id, min_generation=0)
        for generation in (1, 2):
            await begun.becomes(status=RunStatus.WAITING_HUMAN, delivery=None, generation=generation)
            await runs.look()
            assert not queued.is_queued(begun.run_id, min_generation=0)
            # Only the first time: what is in the queue from then on makes it go on.
            queued.add(begun.run_id, "pyoco.work.default", generation=generation)
            await begun.becomes(heartbeat_at=1.0)
            await runs.look()
            assert queued.is_queued(begun.run_id, min_generation=generation)
            await begun.becomes(status=RunStatus.RUNNING)
            await runs.look()
