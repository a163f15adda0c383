"""A NATS server whose disk is full: the gateway says so, and continues when the server is restarted."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from tests.support.broker.full_disk import disk_full
from tests.support.broker.nats_server import NatsServer
from tests.support.inspection import queue_is_empty, started_pid
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.settings import for_hanging_nats
from tests.support.waiting import eventually

CANNOT_WRITE = "ERR-PYOCO-0045"


@pytest.fixture
def disk_config(config: NatsBackendConfig, own_nats: NatsServer) -> NatsBackendConfig:
    return replace(for_hanging_nats(config, own_nats.url), consumer_ack_wait_sec=3.0)


async def refused(gateway: RunningGateway) -> dict[str, Any]:
    """The response of a submit, once the cause is known."""

    async def known() -> dict[str, Any] | None:
        response = await gateway.http.post("/runs", json={"flow_name": "noop"})
        assert response.status_code == 503, response.text
        problem: dict[str, Any] = response.json()
        return problem if problem["err_id"] == CANNOT_WRITE else None

    return await eventually(known, describe="a submit is refused with the cause")


async def ready(gateway: RunningGateway) -> bool:
    return (await gateway.http.get("/health", params={"ready": 1})).status_code == 200


async def test_a_full_disk_is_reported_and_accepted_runs_complete_after_a_restart(
    disk_config: NatsBackendConfig, own_nats: NatsServer, tmp_path: Path
) -> None:
    release, started = tmp_path / "release", tmp_path / "started"
    async with running_gateway(disk_config) as gateway, serving_worker(disk_config):
        running = await gateway.submit("waiting", params={"path": str(release), "started": str(started)})
        await started_pid(started)
        waiting = await gateway.submit("noop")
        with disk_full(own_nats.pid):
            problem = await refused(gateway)
            assert "its disk is full" in problem["detail"]
            assert "Check that NATS is running" not in problem["detail"]
            release.touch()
        # Space alone does not help: the store of the server has stopped.
        assert not await ready(gateway)
        health = (await gateway.http.get("/health")).json()
        assert (health["nats"]["ready"], health["storage"]["ready"]) == (False, False)
        assert health["storage"]["cause"] == "not_stored"
        assert "its disk is full" in health["nats"]["detail"]
        own_nats.restart()
        await eventually(lambda: ready(gateway), describe="the gateway is ready again")
        for run_id in (running, waiting, await gateway.submit("noop")):
            assert (await gateway.ends(run_id))["status"] == "COMPLETED"
        await eventually(lambda: queue_is_empty(gateway), describe="the queue is empty")
