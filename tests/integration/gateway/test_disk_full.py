"""A NATS server whose disk is full: the gateway says so, and continues when the server is restarted."""

from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.write_state import WriteCause, WriteProblem
from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.broker.storage.write_health import WriteHealth
from pyoco_server.broker.storage.write_probes import WriteProbe
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from tests.support.broker.full_disk import disk_full
from tests.support.broker.nats_server import NatsServer
from tests.support.inspection import queue_is_empty, started_pid
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.settings import for_hanging_nats
from tests.support.waiting import eventually

CANNOT_WRITE = "ERR-PYOCO-0046"


@pytest.fixture
def disk_config(config: NatsBackendConfig, own_nats: NatsServer) -> NatsBackendConfig:
    # Short: a worker must keep a result for longer.
    return replace(
        for_hanging_nats(config, own_nats.url), consumer_ack_wait_sec=1.0, ack_progress_interval_sec=0.3
    )


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
    disk_config: NatsBackendConfig, own_nats: NatsServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    release, started = tmp_path / "release", tmp_path / "started"
    async with running_gateway(disk_config) as gateway, serving_worker(disk_config):
        running = await gateway.submit("waiting", params={"path": str(release), "started": str(started)})
        await started_pid(started)
        waiting = await gateway.submit("noop")
        with disk_full(own_nats.pid):
            release.touch()
            problem = await refused(gateway)
            assert "its disk is full" in problem["detail"]
            assert "Check that NATS is running" not in problem["detail"]
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
    # The worker has kept the result of the run that ended meanwhile.
    assert "The final state of the run could not be recorded" not in caplog.text
    assert caplog.text.count("NATS cannot write to KV_pyoco_runs") == 1


async def test_an_idle_gateway_notices_a_full_disk_and_its_probes_leave_nothing(
    disk_config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    async with running_gateway(disk_config) as gateway:
        inside = gateway.inside
        probing = WriteHealth(inside.connection, idle_sec=0)
        await probing.start()
        await eventually(lambda: stored_probes(gateway), describe="the streams were written to")
        assert (await gateway.http.get("/runs")).json() == []
        assert (await gateway.http.get("/overview")).json()["queues"] == []
        with disk_full(own_nats.pid):
            await eventually(lambda: probing.problem is not None, describe="the full disk is noticed")
        await probing.close()
        own_nats.restart()
        await eventually(lambda: ready(gateway), describe="the gateway is ready again")
        for stream in ("PYOCO_WORK", "PYOCO_JOURNAL"):
            state = await stream_state(inside.connection, stream)
            assert (state.messages, state.last_sequence > 0) == (0, True)


async def test_a_test_write_that_a_restart_interrupts_is_no_problem_of_the_restarted_server(
    disk_config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    """As after a full disk: otherwise submits are refused once more, although NATS is ready again."""
    async with running_gateway(disk_config) as gateway:
        health = WriteHealth(gateway.inside.connection)

        class InterruptedProbe(WriteProbe):
            async def write(self, connection: Connection) -> None:
                own_nats.restart()
                await eventually(lambda: ready(gateway), describe="the gateway is ready again")
                raise NatsUnavailable("the connection was lost")

        await health._check(InterruptedProbe(*astuple(health._probes["KV_pyoco_runs"])))
        assert health._find_problem() is None


async def stored_probes(gateway: RunningGateway) -> bool:
    connection = gateway.inside.connection
    streams = ("KV_pyoco_runs", "PYOCO_WORK", "PYOCO_JOURNAL")
    return all([(await stream_state(connection, stream)).last_sequence for stream in streams])


async def test_a_limit_of_the_server_is_reported_as_the_cause(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    context = gateway.inside.connection.client.jetstream()
    runs = (await context.stream_info("KV_pyoco_runs")).config
    await context.update_stream(replace(runs, max_bytes=64))
    response = await gateway.http.post("/runs", json={"flow_name": "noop"})
    assert (response.status_code, response.json()["err_id"]) == (503, CANNOT_WRITE)
    assert "its storage limit is reached (maximum bytes exceeded)" in response.json()["detail"]
    health = (await gateway.http.get("/health")).json()
    assert (health["storage"]["cause"], health["nats"]["ready"]) == ("limit_reached", False)
    run_metrics = await gateway.http.get("/metrics")
    assert "pyoco_nats_writable 0.0" in run_metrics.text
    await context.update_stream(runs)
    await eventually(lambda: ready(gateway), describe="the gateway is ready again")
    assert "pyoco_nats_writable 1.0" in (await gateway.http.get("/metrics")).text


async def test_a_run_that_waits_for_a_full_disk_is_explained(gateway: RunningGateway) -> None:
    run_id = await gateway.submit("noop")
    gateway.inside.connection.writes.problem = WriteProblem(
        WriteCause.DISK_FULL, "its disk is full (0 bytes free)", 1.0, streams=("KV_x",), subjects=("unused.",)
    )
    explained = (await gateway.http.get(f"/runs/{run_id}/explain")).json()
    assert explained["summary"] == (
        "NATS cannot write, so no run makes progress: its disk is full (0 bytes free)."
    )
    assert explained["findings"][0]["code"] == "nats_cannot_write"


async def test_space_that_runs_out_is_reported_before_it_is_gone(
    config: NatsBackendConfig, gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    inside = gateway.inside
    context = inside.connection.client.jetstream()
    await gateway.submit("noop")
    runs = await context.stream_info("KV_pyoco_runs")
    limit = runs.state.bytes + 10
    await context.update_stream(replace(runs.config, max_bytes=limit))
    looking = WriteHealth(inside.connection)
    await looking.start()
    await eventually(lambda: looking.low_space, describe="the limit of the stream is noticed")
    await looking.close()
    inside.storage.space = looking.space
    [low] = (await gateway.http.get("/health")).json()["storage"]["low"]
    assert low == {"of": "KV_pyoco_runs", "free_bytes": 10, "limit_bytes": limit}
    assert "NATS is running out of space" in caplog.text
    assert 'pyoco_nats_free_bytes{of="KV_pyoco_runs"}' in (await gateway.http.get("/metrics")).text
