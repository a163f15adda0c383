"""A gateway that sweeps often, and workers that crash."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from msgspec import structs

from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.queue.advisories import Advisories, ExhaustedJob
from pyoco_server.broker.queue.work_queue import Delivery, WorkQueue
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import Job, RunSnapshot, TaskStatus, pending_snapshot
from pyoco_server.runs.lifecycle.ownership import OwnedRun, claim
from pyoco_server.runs.lifecycle.submission import new_job
from pyoco_server.runs.sweep import sweep_rules
from pyoco_server.worker import PyocoNatsWorker
from tests.flows import basics
from tests.support.broker.stored_runs import signed
from tests.support.running.gateway import RunningGateway
from tests.support.waiting import LIMIT_SEC, eventually

YAML = "version: 1\nflow:\n  graph: |\n    noop\ntasks:\n  noop:\n    callable: tests.flows.basics:nothing\n"
FAKE_ADVISORY = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.PYOCO_WORK.pyoco_worker_default"


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    """Rounds that a test can wait for."""
    return replace(config, sweep_interval_sec=0.2, consumer_ack_wait_sec=1.0, ack_progress_interval_sec=0.3)


@pytest.fixture
def _no_submissions(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests without submissions: the sweep need not wait for their end."""
    monkeypatch.setattr(sweep_rules, "_SUBMISSION_SEC", 0.5)


class CrashedWorker:
    """Claims a run and crashes: no heartbeat, no ack, no pull."""

    def __init__(self, config: NatsBackendConfig) -> None:
        self._config = config
        self.delivery: Delivery | None = None

    async def take(self, times: int = 1) -> OwnedRun:
        worker = await PyocoNatsWorker.connect(
            self._config, flow_resolver=lambda _: basics.noop_flow, worker_id="dead"
        )
        try:
            for _ in range(times):
                async with asyncio.timeout(LIMIT_SEC):
                    self.delivery = await worker._intake.take()
                owned = await claim(
                    worker._services.store,
                    WorkQueue(worker._services.connection),
                    msgspec.json.decode(self.delivery.payload, type=Job),
                    delivery=self.delivery.id,
                    expected_revision=None,
                    worker_id="dead",
                    max_bytes=100_000,
                )
                await owned.write(_with_a_running_task)
        finally:
            # Without close(), which would hand back what it has.
            await worker._services.connection.close()
        return owned


def _with_a_running_task(snapshot: RunSnapshot) -> RunSnapshot:
    return structs.replace(snapshot, tasks={"nothing": TaskStatus.RUNNING})


async def stored(gateway: RunningGateway, run_id: str) -> RunSnapshot:
    run = await gateway.inside.runs.store.get_from_leader(run_id)
    assert run is not None
    return run.snapshot


async def store_without_job(gateway: RunningGateway, **fields: Any) -> Job:
    """As a gateway that is killed between its two writes."""
    job = new_job(**{"flow_name": "noop", "tag": "default", **fields})
    run = await signed(gateway.inside.connection, pending_snapshot(job))
    await gateway.inside.runs.store.create(run)
    job.signature = run.signature
    return job


async def messages_in_queue(gateway: RunningGateway) -> int:
    context = gateway.inside.connection.client.jetstream()
    return int((await context.stream_info(gateway.inside.config.work_stream)).state.messages)


async def advisories(gateway: RunningGateway) -> int:
    context = gateway.inside.connection.client.jetstream()
    return int((await context.stream_info(gateway.inside.config.advisory_stream)).state.messages)


async def purge_queue(gateway: RunningGateway) -> None:
    await jetstream_api.call(gateway.inside.connection, "STREAM.PURGE.PYOCO_WORK")


@pytest.fixture
def _no_advisories(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the server had sent no advisory."""

    async def none(_: Advisories) -> AsyncIterator[ExhaustedJob]:
        nothing: list[ExhaustedJob] = []
        for job in nothing:
            yield job

    monkeypatch.setattr(Advisories, "unhandled", none)


async def rounds(gateway: RunningGateway, count: int) -> None:
    """Wait until that many whole rounds have passed."""
    sweeper = gateway.inside.sweeper
    until = sweeper.rounds + count + 1
    await eventually(lambda: sweeper.rounds >= until, describe=f"{count} rounds have passed")
