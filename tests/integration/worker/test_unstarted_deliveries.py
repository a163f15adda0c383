"""A delivery that was never started is not an attempt, however many of them there are."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from msgspec import structs

from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.executors.executor import ExecutorFailedToStart
from pyoco_server.worker.executors.executor_handle import ExecutorHandle
from pyoco_server.worker.executors.renewable_executor import RenewableExecutor
from pyoco_server.worker.session import run_session, slots
from tests.flows import basics
from tests.support.inspection import dead_letters, queue_is_empty, worker_record
from tests.support.running.gateway import RunningGateway
from tests.support.running.sweeping import (
    FAKE_ADVISORY,
    CrashedWorker,
    _no_advisories,
    advisories,
    config,
    messages_in_queue,
    stored,
)
from tests.support.running.workers import idle_worker, serving_worker
from tests.support.waiting import LIMIT_SEC, eventually

__all__ = ["_no_advisories", "config"]


@pytest.fixture(autouse=True)
def _short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short delays of redeliveries and slots."""
    monkeypatch.setattr(run_session, "_FIRST_DELAY_SEC", 0.05)
    monkeypatch.setattr(run_session, "_LONGEST_DELAY_SEC", 0.05)
    monkeypatch.setattr(slots, "_FIRST_PAUSE_SEC", 0.05)
    monkeypatch.setattr(slots, "_LONGEST_PAUSE_SEC", 0.05)


async def deliveries(gateway: RunningGateway) -> int:
    """How many the queue has made, of whichever message."""
    info = await gateway.inside.connection.client.jetstream().consumer_info(
        gateway.inside.config.work_stream, "pyoco_worker_default"
    )
    assert info.delivered is not None
    return int(info.delivered.consumer_seq)


class RefusedClaims:
    """The runs bucket of a worker that takes no writes, while the queue works."""

    def __init__(self, worker: PyocoNatsWorker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refused = 0
        self.refusing = True
        store = worker._services.store
        replace = store.replace

        async def refuse(*args: Any, **options: Any) -> int:
            if not self.refusing:
                return await replace(*args, **options)
            self.refused += 1
            raise NatsUnavailable("the bucket takes no writes")

        monkeypatch.setattr(store, "replace", refuse)

    async def happens(self, times: int) -> None:
        await eventually(lambda: self.refused >= times, describe=f"{times} claims were refused")


async def test_a_run_completes_after_more_refused_claims_than_deliveries(
    config: NatsBackendConfig, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a second time: the id of a new job differs from that of the one before."""
    strict = replace(config, consumer_max_deliver=2)
    async with serving_worker(strict) as worker:
        claims = RefusedClaims(worker, monkeypatch)
        run_id = await gateway.submit("noop")
        # Two messages are used up, and the third is on its way.
        await claims.happens(5)
        claims.refusing = False
        run = await gateway.ends(run_id)
        assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
        await eventually(lambda: queue_is_empty(gateway), describe="no job is left")
    assert await dead_letters(gateway) == []


async def test_a_worker_with_refused_claims_backs_off(
    config: NatsBackendConfig, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run that it cannot begin costs a delivery."""
    monkeypatch.setattr(slots, "_FIRST_PAUSE_SEC", 600.0)
    monkeypatch.setattr(slots, "_LONGEST_PAUSE_SEC", 600.0)
    async with serving_worker(config) as worker:
        claims = RefusedClaims(worker, monkeypatch)
        await gateway.submit("noop")
        await claims.happens(1)
        for _ in range(5):
            await gateway.submit("noop")
        async with serving_worker(config, worker_id="healthy"):
            await eventually(lambda: queue_is_empty(gateway), describe="others have them")
        # It has two slots for its executor, of which one at a time waits for a run.
        assert claims.refused == 1


async def test_unstarted_deliveries_do_not_end_a_run(
    config: NatsBackendConfig, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first worker died, and the next one could not claim it."""
    strict = replace(config, consumer_max_deliver=3)
    run_id = await gateway.submit("noop")
    await CrashedWorker(strict).take()
    async with serving_worker(strict) as worker:
        claims = RefusedClaims(worker, monkeypatch)
        await claims.happens(2)

        async def used_up() -> bool:
            return await advisories(gateway) == 1 or gateway.inside.sweeper.actions["job_published"] == 1

        await eventually(used_up, describe="its deliveries are used up")
        claims.refusing = False
        run = await gateway.ends(run_id)
        assert (run["status"], run["attempt"]) == ("COMPLETED", 2)
    assert await dead_letters(gateway) == []


async def test_a_run_that_waits_for_people_gets_a_new_job_too(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    """It is answered, and no worker has started the job that resumes it."""
    once = replace(config, consumer_max_deliver=1)
    run_id = await gateway.submit("noop")
    run = await gateway.inside.runs.store.get_from_leader(run_id)
    assert run is not None
    waiting = structs.replace(run.snapshot, status=RunStatus.WAITING_HUMAN)
    await gateway.inside.runs.store.replace(waiting, revision=run.revision)
    async with idle_worker(once, basics.noop_flow) as worker:
        async with asyncio.timeout(LIMIT_SEC):
            await worker._intake.take()
            second = await worker._intake.take()
        assert (second.stream_seq, second.number) == (2, 1)
    assert (await stored(gateway, run_id)).status is RunStatus.WAITING_HUMAN


@pytest.fixture
async def broken(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator["WorkerWithoutExecutors"]:
    async with serving_worker(replace(config, consumer_max_deliver=2), worker_id="broken") as worker:
        yield WorkerWithoutExecutors(worker, monkeypatch)


class WorkerWithoutExecutors:
    """Its executors cannot be started until `repaired` is set."""

    def __init__(self, worker: PyocoNatsWorker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tries = 0
        self.repaired = False
        [executor] = worker._executors
        assert isinstance(executor, RenewableExecutor)
        start = executor.start

        async def fail() -> ExecutorHandle:
            if self.repaired:
                return await start()
            self.tries += 1
            raise ExecutorFailedToStart("half way through a deployment")

        monkeypatch.setattr(executor, "start", fail)

    async def has_tried(self, times: int) -> None:
        await eventually(lambda: self.tries >= times, describe=f"it has tried {times} times")


async def test_a_worker_without_executors_uses_one_delivery_and_starts_the_run_later(
    gateway: RunningGateway, broken: WorkerWithoutExecutors
) -> None:
    run_id = await gateway.submit("noop")
    await broken.has_tried(5)
    pending = await gateway.get(run_id)
    assert (pending["status"], pending["attempt"]) == ("PENDING", 0)
    assert await deliveries(gateway) == 1
    broken.repaired = True
    run = await gateway.ends(run_id)
    assert (run["status"], run["attempt"]) == ("COMPLETED", 1)


async def test_a_worker_without_executors_reports_it_in_its_record(
    gateway: RunningGateway, broken: WorkerWithoutExecutors
) -> None:
    async def error() -> str | None:
        return (await worker_record(gateway, "broken")).executor_error

    async def is_well() -> bool:
        return await error() is None

    assert await error() is None
    await gateway.submit("noop")
    assert await eventually(error, describe="the record says why") == ("half way through a deployment")
    record = (await gateway.http.get("/workers/broken")).json()
    assert record["executor_error"] == "half way through a deployment"
    broken.repaired = True
    await eventually(is_well, describe="the record says that it is well again")


async def test_another_worker_gets_the_run_of_a_worker_without_executors(
    config: NatsBackendConfig, gateway: RunningGateway, broken: WorkerWithoutExecutors
) -> None:
    run_id = await gateway.submit("noop")
    await broken.has_tried(1)
    async with serving_worker(replace(config, consumer_max_deliver=2), worker_id="healthy"):
        run = await gateway.ends(run_id)
    assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "healthy", 1)


@pytest.mark.usefixtures("_no_advisories")
async def test_a_run_whose_last_delivery_found_no_executor_gets_a_new_job(
    config: NatsBackendConfig,
    gateway: RunningGateway,
    broken: WorkerWithoutExecutors,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server need not say that there will be no further delivery: the snapshot does."""
    strict = replace(config, consumer_max_deliver=2)
    run_id = await gateway.submit("noop")
    await broken.has_tried(1)
    async with serving_worker(strict, worker_id="also-broken") as other:
        second = WorkerWithoutExecutors(other, monkeypatch)
        await second.has_tried(1)

        async def is_returned() -> bool:
            return (await stored(gateway, run_id)).handed_back is True

        await eventually(is_returned, describe="it is returned")
        second.repaired = True
        run = await gateway.ends(run_id)
    assert run["status"] == "COMPLETED"
    assert await dead_letters(gateway) == []


async def test_a_worker_without_executors_can_be_stopped(
    config: NatsBackendConfig, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "_FIRST_PAUSE_SEC", 600.0)
    patient = replace(config, drain_timeout_sec=600.0)
    async with asyncio.timeout(LIMIT_SEC), serving_worker(patient) as worker:
        broken = WorkerWithoutExecutors(worker, monkeypatch)
        await gateway.submit("noop")
        await broken.has_tried(1)


# Advisories of a recreated stream


async def test_an_advisory_about_a_message_that_was_never_delivered_changes_nothing(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    """The stream was recreated, and its sequences belong to other jobs."""
    run_id = await gateway.submit("noop")
    told = msgspec.json.encode({"stream_seq": 1, "deliveries": 20})
    await publish_acked(gateway.inside.connection, FAKE_ADVISORY, told)

    async def dealt_with() -> bool:
        return await advisories(gateway) == 0

    await eventually(dealt_with, describe="the advisory is removed")
    assert (await gateway.get(run_id))["status"] == "PENDING"
    assert await messages_in_queue(gateway) == 1
    assert not gateway.inside.sweeper.actions
    async with serving_worker(config):
        assert (await gateway.ends(run_id))["attempt"] == 1


async def test_an_advisory_of_fewer_deliveries_than_are_allowed_now_does_not_end_a_run(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    run_id = await gateway.submit("noop")
    await CrashedWorker(replace(config, consumer_max_deliver=5)).take()
    told = msgspec.json.encode({"stream_seq": 1, "deliveries": 1})
    await publish_acked(gateway.inside.connection, FAKE_ADVISORY, told)
    async with serving_worker(replace(config, consumer_max_deliver=5)):
        run = await gateway.ends(run_id)
    assert (run["status"], run["attempt"]) == ("COMPLETED", 2)
