"""Errors that need NATS, or bytes on a socket: large bodies, outages, jobs that NATS rejects.

Errors of single fields: tests/unit/http_api.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.requests import bodies
from tests.support.broker.nats_server import NatsServer
from tests.support.inspection import no_run_exists
from tests.support.problems import assert_field_problem, assert_problem
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.samples.flow_yaml import VALID_FLOW_YAML
from tests.support.settings import for_hanging_nats
from tests.support.waiting import LIMIT_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

JSON_START = b'{"flow_name": "f", "params": {"blob": "'
FORM_START = b'--x\r\nContent-Disposition: form-data; name="workflow"; filename="f"\r\n\r\n'
FORM_TYPE = "multipart/form-data; boundary=x"
ENDLESS_BYTES = 200 * 1024 * 1024


async def test_health_reports_the_gateway_and_nats(shared_gateway: RunningGateway) -> None:
    health = (await shared_gateway.http.get("/health")).json()
    assert (health["status"], health["nats"]["status"], health["nats"]["ready"]) == ("ok", "connected", True)


async def test_an_invalid_submit_changes_nothing(shared_gateway: RunningGateway) -> None:
    response = await shared_gateway.http.post("/runs", json={"flow_name": "f", "tag": "has.dot"})
    assert_field_problem(response, "tag", "expected")
    assert await no_run_exists(shared_gateway)


async def test_params_above_their_limit_are_rejected(shared_gateway: RunningGateway) -> None:
    body = {"flow_name": "f", "params": {"blob": "x" * 300_000}}
    response = await shared_gateway.http.post("/runs", json=body)
    assert_field_problem(response, "params", "PYOCO_MAX_RUN_SNAPSHOT_BYTES")
    assert await no_run_exists(shared_gateway)


async def test_an_unknown_run_is_404(shared_gateway: RunningGateway) -> None:
    for path in ("", "/tasks", "/explain"):
        response = await shared_gateway.http.get(f"/runs/00000000-0000-4000-8000-000000000000{path}")
        assert_problem(response, 404, 5)


async def test_an_endless_form_is_not_read_to_its_end(shared_gateway: RunningGateway) -> None:
    """Its length is not declared."""
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        yield FORM_START
        while sent < ENDLESS_BYTES:
            sent += 65536
            yield b"#" * 65536

    headers = {"content-type": FORM_TYPE}
    try:
        response = await shared_gateway.http.post("/runs/yaml", content=endless(), headers=headers)
    except (httpx.WriteError, httpx.ReadError):
        assert sent < ENDLESS_BYTES
    else:
        assert_problem(response, 413, 16)
    assert await no_run_exists(shared_gateway)


@pytest.mark.parametrize(
    ("path", "content_type", "beginning", "status"),
    [("/runs", "application/json", JSON_START, 422), ("/runs/yaml", FORM_TYPE, FORM_START, 413)],
    ids=["json", "form"],
)
async def test_a_body_that_is_too_long_is_rejected_before_all_of_it_has_come(
    shared_gateway: RunningGateway,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    content_type: str,
    beginning: bytes,
    status: int,
) -> None:
    """The rest is never sent: who reads all of a body before it is measured has no answer."""
    monkeypatch.setattr(bodies, "_DISCARD_SEC", 0.1)
    url = shared_gateway.http.base_url
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {10**9}\r\n\r\n"
    )
    writer.write(head.encode() + beginning + b"x" * 1_000_000)
    try:
        async with asyncio.timeout(LIMIT_SEC):
            assert (await reader.readline()).startswith(f"HTTP/1.1 {status} ".encode())
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def test_a_flow_yaml_just_over_the_limit_is_413(config: NatsBackendConfig) -> None:
    async with running_gateway(replace(config, workflow_yaml_max_bytes=2000)) as gateway:
        assert_problem(await gateway.submit_yaml(VALID_FLOW_YAML + "#" * 2000), 413, 16)
        assert await no_run_exists(gateway)


async def test_a_job_that_the_nats_server_would_not_take_is_413_and_no_503(config: NatsBackendConfig) -> None:
    generous = replace(config, max_run_snapshot_bytes=16 * 1024**2, workflow_yaml_max_bytes=16 * 1024**2)
    async with running_gateway(generous) as gateway:
        large = "x" * 2_000_000
        for response in (
            await gateway.submit_yaml(f"{VALID_FLOW_YAML}# {large}"),
            await gateway.http.post("/runs", json={"flow_name": "f", "params": {"blob": large}}),
        ):
            detail = assert_problem(response, 413, 16)["detail"]
            assert "shorten the params or the flow.yaml, or raise max_payload" in detail
        assert await no_run_exists(gateway)


async def test_a_yaml_run_is_stored_with_its_digest_and_without_its_body(config: NatsBackendConfig) -> None:
    async with running_gateway(config) as gateway:
        response = await gateway.submit_yaml(VALID_FLOW_YAML, tag="cpu")
        assert response.status_code == 200, response.text
        run = await gateway.get(response.json()["run_id"])
    assert (run["flow_name"], run["tag"], run["params"]) == ("from-yaml", "cpu", {"x": 1})
    assert run["workflow_yaml_bytes"] == len(VALID_FLOW_YAML)
    assert len(run["workflow_yaml_sha256"]) == 64
    assert "graph" not in json.dumps(run)


async def test_nats_down_is_503_with_one_warning_each_and_the_gateway_recovers(
    config: NatsBackendConfig, own_nats: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_gateway(replace(config, nats_url=own_nats.url)) as gateway:
        run_id = await gateway.submit("f")
        own_nats.kill()
        requests = (
            gateway.http.build_request("POST", "/runs", json={"flow_name": "f"}),
            gateway.http.build_request("GET", f"/runs/{run_id}"),
            gateway.http.build_request("GET", f"/runs/{run_id}/tasks"),
        )
        for request in requests:
            response = await gateway.http.send(request)
            assert_problem(response, 503, 3)
            assert response.headers["retry-after"] == "1"
        lines = [record for record in caplog.records if record.getMessage().startswith("503 ")]
        assert [(line.levelname, getattr(line, "err_id", "")) for line in lines] == [
            ("WARNING", "ERR-PYOCO-0003")
        ] * len(requests)
        assert all("Traceback" in getattr(line, "exc_traceback", "") for line in lines)
        health = (await gateway.http.get("/health")).json()
        assert (health["status"], health["nats"]["ready"]) == ("ok", False)

        own_nats.start()

        async def back() -> bool:
            return (await gateway.http.post("/runs", json={"flow_name": "f"})).status_code == 200

        await eventually(back, describe="the gateway accepts runs again")
        assert (await gateway.get(run_id))["status"] == "PENDING"


async def test_nats_that_hangs_is_503_and_not_ready(config: NatsBackendConfig, own_nats: NatsServer) -> None:
    async with running_gateway(for_hanging_nats(config, own_nats.url)) as gateway:

        async def ready() -> bool:
            return bool((await gateway.http.get("/health")).json()["nats"]["ready"])

        with own_nats.paused():
            assert_problem(await gateway.http.post("/runs", json={"flow_name": "f"}), 503, 3)
            assert not await ready()
        await eventually(ready, describe="NATS is ready again")


async def test_a_submit_does_not_wait_for_a_long_request_timeout(
    config: NatsBackendConfig, own_nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyoco_server.runs.lifecycle.submission._BUDGET_SEC", 1.0)
    async with running_gateway(replace(config, nats_url=own_nats.url)) as gateway:
        assert gateway.inside.config.nats_request_timeout_sec == LIMIT_SEC
        with own_nats.paused():
            response = await gateway.http.post("/runs", json={"flow_name": "f"})
    assert "no response within" in assert_problem(response, 503, 3)["detail"]


async def test_a_gateway_starts_without_nats_and_uses_it_when_it_comes(
    config: NatsBackendConfig, own_nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First a server without JetStream, which is a 503 with the cure."""
    # A submit that comes before the cause is known waits no longer than this.
    monkeypatch.setattr("pyoco_server.runs.lifecycle.submission._BUDGET_SEC", 1.0)
    own_nats.kill()
    async with running_gateway(replace(config, nats_url=own_nats.url), ready=False) as gateway:
        assert_problem(await gateway.http.post("/runs", json={"flow_name": "f"}), 503, 3)
        own_nats.start(jetstream=False)

        async def explained() -> bool:
            problem = assert_problem(await gateway.http.post("/runs", json={"flow_name": "f"}), 503, 3)
            return "JetStream" in problem["detail"]

        await eventually(explained, describe="the answer speaks of JetStream")
        own_nats.kill()
        own_nats.start()
        await gateway.inside.connection.wait_ready(LIMIT_SEC)
        await gateway.submit("f")
