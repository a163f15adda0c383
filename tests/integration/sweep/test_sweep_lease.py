"""One gateway sweeps at a time, and another takes over."""

import asyncio
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from pyoco_server.broker.jetstream import lease
from pyoco_server.broker.jetstream.lease import Lease
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunStatus
from tests.support.broker.nats_server import NatsServer
from tests.support.programs import SERVER, running
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.sweeping import (
    FAKE_ADVISORY,
    _no_submissions,
    config,
    messages_in_queue,
    rounds,
    store_without_job,
    stored,
)
from tests.support.running.workers import serving_worker
from tests.support.settings import unchecked
from tests.support.waiting import NEVER_SEC, eventually

__all__ = ["_no_submissions", "config"]

# One gateway at a time


def count_looks(monkeypatch: pytest.MonkeyPatch, lease: Lease) -> Counter[str]:
    looks: Counter[str] = Counter()
    hold = lease.hold

    async def counted() -> bool:
        held = await hold()
        looks["ended"] += 1
        return held

    monkeypatch.setattr(lease, "hold", counted)
    return looks


@pytest.mark.usefixtures("_no_submissions")
async def test_a_killed_gateway_is_replaced_by_the_other(
    config: NatsBackendConfig, nats_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("up", "--port", "0", "--nats-url", nats_url)
    # The clock by which the second gateway judges the lease of the first, which is another process.
    now = time.monotonic()
    monkeypatch.setattr(lease, "time", SimpleNamespace(monotonic=lambda: now))
    with running(SERVER, *arguments, cwd=tmp_path, PYOCO_SWEEP_INTERVAL_SEC="0.1") as (first, _):
        await asyncio.to_thread(first.writes, "acquired the sweep lease")
        async with running_gateway(config) as gateway:
            sweeper = gateway.inside.sweeper
            looks = count_looks(monkeypatch, sweeper.lease)
            await eventually(lambda: looks.total() > 5, describe="it has looked at the lease several times")
            assert not sweeper.lease.held
            first.process.kill()
            first.end()
            before = looks.total()
            await eventually(lambda: looks.total() > before + 2, describe="it has seen the last renewal")
            assert not sweeper.lease.held
            now += NEVER_SEC
            await eventually(lambda: sweeper.lease.held, describe="the second one sweeps")
            job = await store_without_job(gateway)
            async with serving_worker(config):
                assert (await gateway.ends(job.run_id))["status"] == "COMPLETED"
            assert sweeper.actions == {"job_published": 1}


async def test_a_stopped_gateway_releases_the_lease(config: NatsBackendConfig) -> None:
    slow = unchecked(config, sweep_interval_sec=NEVER_SEC)
    async with running_gateway(slow) as first:
        await eventually(lambda: first.inside.sweeper.lease.held, describe="the first one sweeps")
    async with running_gateway(slow) as second:
        await eventually(lambda: second.inside.sweeper.lease.held, describe="the next one sweeps")


async def test_a_gateway_without_the_lease_stops_its_round(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    sweeper = gateway.inside.sweeper
    await eventually(lambda: sweeper.lease.held, describe="it sweeps")
    context = gateway.inside.connection.client.jetstream()
    bucket = await context.key_value(config.lease_kv_bucket)
    await bucket.put("sweep", b'{"holder": "another", "ttl_sec": 600}')
    await eventually(lambda: not sweeper.lease.held, describe="it has noticed")
    job = await store_without_job(gateway)
    # A holder of the lease would end this one in its next round.
    given_up = await gateway.submit("noop")
    advisory = msgspec.json.encode({"stream_seq": 1, "deliveries": 1})
    await publish_acked(gateway.inside.connection, FAKE_ADVISORY, advisory)
    await rounds(gateway, 15)
    for run_id in (job.run_id, given_up):
        assert (await stored(gateway, run_id)).status is RunStatus.PENDING
    assert await messages_in_queue(gateway) == 1
    assert not sweeper.actions


@pytest.mark.usefixtures("_no_submissions")
async def test_an_outage_is_logged_once_and_survived(
    config: NatsBackendConfig, own_nats: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    quick = replace(config, nats_url=own_nats.url, nats_request_timeout_sec=0.8)
    async with running_gateway(quick) as gateway:
        sweeper = gateway.inside.sweeper
        await rounds(gateway, 1)
        with own_nats.paused():
            await rounds(gateway, 3)
        assert sum("the sweep pauses" in record.message for record in caplog.records) == 1
        job = await store_without_job(gateway)
        async with serving_worker(quick):
            assert (await gateway.ends(job.run_id))["status"] == "COMPLETED"
        assert sweeper.actions == {"job_published": 1}
