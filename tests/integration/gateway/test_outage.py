"""NATS restarts under load: an accepted run completes, a rejected one does not exist."""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from tests.support.broker.nats_server import NatsServer
from tests.support.inspection import queue_is_empty, started_pid, stored_run_ids
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.settings import for_hanging_nats
from tests.support.waiting import LIMIT_SEC, NEVER_SEC, eventually

SUBMITS = 200
CONCURRENCY = 32


@pytest.fixture
def outage_config(config: NatsBackendConfig, own_nats: NatsServer) -> NatsBackendConfig:
    # A delivery on its way to a worker when the connection is lost comes again after AckWait.
    return replace(for_hanging_nats(config, own_nats.url), consumer_ack_wait_sec=3.0)


def reported_orphans(caplog: pytest.LogCaptureFixture) -> set[str]:
    return {
        str(getattr(record, "run_id", ""))
        for record in caplog.records
        if getattr(record, "err_id", None) == "ERR-PYOCO-0004"
    }


async def submit_all(gateway: RunningGateway, disturbing: asyncio.Event) -> list[httpx.Response]:
    """Submit at a pace that makes the outage fall into the middle."""
    responses: list[httpx.Response] = []
    numbers = iter(range(SUBMITS))

    async def one_client() -> None:
        for number in numbers:
            body = {"flow_name": "noop", "params": {"number": number}}
            responses.append(await gateway.http.post("/runs", json=body))
            if number == SUBMITS // 4:
                disturbing.set()
            await asyncio.sleep(0.02)

    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(one_client())
    return responses


async def disturb(nats: NatsServer, way: str, when: asyncio.Event) -> None:
    await when.wait()
    if way == "pause":
        with nats.paused():
            await asyncio.sleep(0.5)
    else:
        await asyncio.to_thread(nats.kill if way == "kill" else nats.stop)
        await asyncio.to_thread(nats.start)


@pytest.mark.parametrize("way", ["kill", "stop", "pause"])
async def test_submits_during_an_outage_complete_or_leave_nothing(
    outage_config: NatsBackendConfig, own_nats: NatsServer, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    caplog.set_level(logging.INFO)
    disturbing = asyncio.Event()
    async with running_gateway(outage_config) as gateway, serving_worker(outage_config, concurrency=2):
        responses, _ = await asyncio.gather(
            submit_all(gateway, disturbing), disturb(own_nats, way, disturbing)
        )
        assert len(responses) == SUBMITS
        assert {response.status_code for response in responses} <= {200, 503}
        accepted = {response.json()["run_id"] for response in responses if response.status_code == 200}
        assert accepted
        # The server is back; the gateway may still be on its way to it.
        await gateway.inside.connection.wait_ready(LIMIT_SEC)
        for run_id in accepted:
            assert (await gateway.ends(run_id))["status"] == "COMPLETED"
        assert await eventually(lambda: queue_is_empty(gateway), describe="the queue is empty")

        async def only_accepted_are_left() -> bool:
            return await stored_run_ids(gateway) - reported_orphans(caplog) == accepted

        await eventually(only_accepted_are_left, describe="refused runs do not exist")


async def test_a_run_that_ends_during_an_outage_is_recorded_when_nats_is_back(
    outage_config: NatsBackendConfig, own_nats: NatsServer, tmp_path: Path
) -> None:
    release, marker = tmp_path / "release", tmp_path / "started"
    patient = replace(outage_config, consumer_ack_wait_sec=NEVER_SEC)
    async with running_gateway(patient) as gateway, serving_worker(patient):
        run_id = await gateway.submit("waiting", params={"path": str(release), "started": str(marker)})
        await started_pid(marker)
        own_nats.kill()
        await eventually(lambda: not gateway.inside.connection.ready, describe="the loss is seen")
        release.touch()

        async def ended_unrecorded() -> bool:
            return not (Path(patient.run_dir) / f"{run_id}-1").exists()

        await eventually(ended_unrecorded, describe="the flow has ended")
        own_nats.start()
        await gateway.inside.connection.wait_ready(LIMIT_SEC)
        run = await gateway.ends(run_id)
        assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
        assert await eventually(lambda: queue_is_empty(gateway), describe="the job is acked")


async def test_a_worker_continues_after_an_outage_and_without_its_consumer(
    outage_config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    async with running_gateway(outage_config) as gateway, serving_worker(outage_config, tags=["a", "b"]):
        for tag in ("a", "b"):
            await gateway.ends(await gateway.submit("noop", tag=tag))
        await asyncio.to_thread(own_nats.kill)
        await eventually(lambda: not gateway.inside.connection.ready, describe="the loss is seen")
        await asyncio.to_thread(own_nats.start)
        await gateway.inside.connection.wait_ready(LIMIT_SEC)
        for tag in ("a", "b"):
            assert (await gateway.ends(await gateway.submit("noop", tag=tag)))["status"] == "COMPLETED"
        context = gateway.inside.connection.client.jetstream()
        await context.delete_consumer("PYOCO_WORK", "pyoco_worker_a")
        assert (await gateway.ends(await gateway.submit("noop", tag="a")))["status"] == "COMPLETED"
