"""Errors that appear in the log only: each has the right ids."""

import asyncio
import logging
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.workers.worker_models import WorkerState
from tests.support.broker.nats_server import NatsServer
from tests.support.inspection import queue_is_empty, started_pid
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.settings import for_hanging_nats
from tests.support.waiting import LIMIT_SEC, NEVER_SEC, eventually


def logged(caplog: pytest.LogCaptureFixture, number: int) -> list[logging.LogRecord]:
    return [record for record in caplog.records if getattr(record, "err_id", "") == f"ERR-PYOCO-{number:04d}"]


async def test_0004_a_run_that_could_not_be_withdrawn_is_named(
    config: NatsBackendConfig, own_nats: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_gateway(for_hanging_nats(config, own_nats.url)) as gateway:
        own_nats.pause()
        response = await gateway.http.post("/runs", json={"flow_name": "f"})
        assert response.status_code == 503
    own_nats.resume()
    [record] = logged(caplog, 4)
    assert record.levelno == logging.ERROR
    assert getattr(record, "msg_id", "") == "MSG-PYOCO-0004"
    assert getattr(record, "run_id", "") in record.getMessage()


async def test_0008_a_final_snapshot_that_cannot_be_written_is_logged_and_the_run_redelivered(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    release, marker = tmp_path / "release", tmp_path / "started"
    impatient = replace(config, consumer_ack_wait_sec=1.0, ack_progress_interval_sec=0.3)
    context = gateway.inside.connection.client.jetstream()
    runs = (await context.stream_info("KV_pyoco_runs")).config
    async with serving_worker(impatient):
        run_id = await gateway.submit("waiting", params={"path": str(release), "started": str(marker)})
        await started_pid(marker)
        await context.update_stream(replace(runs, max_msg_size=16))
        release.touch()
        await eventually(lambda: logged(caplog, 8), describe="ERR-PYOCO-0008 is logged")
        await context.update_stream(runs)
        run = await gateway.ends(run_id)
        assert run["status"] == "COMPLETED"
        assert run["attempt"] >= 2


async def test_0009_a_failed_heartbeat_is_logged(
    config: NatsBackendConfig, own_nats: NatsServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    release, marker = tmp_path / "release", tmp_path / "started"
    own = replace(config, nats_url=own_nats.url, consumer_ack_wait_sec=NEVER_SEC)
    async with running_gateway(own) as gateway, serving_worker(own):
        run_id = await gateway.submit("waiting", params={"path": str(release), "started": str(marker)})
        await started_pid(marker)
        await asyncio.to_thread(own_nats.kill)
        [first, *_] = await eventually(lambda: logged(caplog, 9), describe="ERR-PYOCO-0009")
        assert getattr(first, "run_id", "") == run_id
        await asyncio.to_thread(own_nats.start)
        release.touch()
        await gateway.inside.connection.wait_ready(LIMIT_SEC)
        assert (await gateway.ends(run_id))["status"] == "COMPLETED"


async def test_0010_conflicting_states_are_logged(
    config: NatsBackendConfig, gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving_worker(replace(config, max_run_snapshot_bytes=1024)):
        run = await gateway.ends(await gateway.submit("wide"))
    assert run["status"] == "COMPLETED"
    assert "ERR-PYOCO-0010" in run["error"]
    assert logged(caplog, 10)


async def test_0011_a_failed_dead_letter_is_logged_and_a_deleted_queue_is_recreated(
    config: NatsBackendConfig, gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving_worker(config):
        context = gateway.inside.connection.client.jetstream()
        await context.delete_stream("PYOCO_DLQ")
        run = await gateway.ends(await gateway.submit("failing"))
        assert run["status"] == "FAILED"
        [record] = await eventually(lambda: logged(caplog, 11), describe="ERR-PYOCO-0011")
        assert getattr(record, "reason", "") == "execution_error"
        assert await eventually(lambda: queue_is_empty(gateway), describe="the run is acked")
        await context.delete_stream("PYOCO_WORK")

        async def accepted() -> str | None:
            response = await gateway.http.post("/runs", json={"flow_name": "noop"})
            return response.json()["run_id"] if response.status_code == 200 else None

        run_id = await eventually(accepted, describe="runs are accepted again")
        assert (await gateway.ends(run_id))["status"] == "COMPLETED"


async def test_a_wrong_password_is_logged_once(
    config: NatsBackendConfig, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = config.nats_url.replace("@", "-wrong@")
    connection = Connection(replace(config, nats_url=wrong), name="test")
    await connection.start()

    def reported() -> list[str]:
        return [record.getMessage() for record in caplog.records if "NATS" in record.getMessage()]

    await eventually(
        lambda: any("authorization" in line.lower() for line in reported()), describe="it is told"
    )
    tries = 0

    async def tried_often() -> bool:
        nonlocal tries
        tries += 1
        return tries > 75

    await eventually(tried_often, describe="it had time for several attempts")
    await connection.close()
    assert len(reported()) <= 6


async def test_two_workers_of_one_id_are_warned(
    config: NatsBackendConfig, gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving_worker(config, worker_id="twin"):
        async with serving_worker(config, worker_id="twin"):
            await eventually(lambda: "another worker uses the id twin" in caplog.text, describe="told")

        async def alive_again() -> bool:
            record = await gateway.inside.workers.get("twin")
            return record is not None and record.state is WorkerState.IDLE

        await eventually(alive_again, describe="the one that is left says that it is there")


async def test_a_disconnected_client_is_no_error(
    gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    url = gateway.http.base_url
    with socket.create_connection((url.host, url.port or 80)) as sender:
        sender.sendall(b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
    await eventually(lambda: "the client disconnected" in caplog.text, describe="it is noted")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
