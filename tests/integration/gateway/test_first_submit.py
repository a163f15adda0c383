"""A submit that comes before the streams of a new gateway are there."""

import asyncio

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.streams_and_buckets import ensure_resources
from pyoco_server.config import NatsBackendConfig
from tests.support.problems import assert_problem
from tests.support.running.gateway import running_gateway
from tests.support.waiting import LIMIT_SEC, eventually


async def test_the_first_submit_waits_for_the_streams(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A stalled machine is not what this is about.
    monkeypatch.setattr("pyoco_server.runs.lifecycle.submission._BUDGET_SEC", LIMIT_SEC)
    may_prepare = asyncio.Event()

    async def later(connection: Connection) -> None:
        await may_prepare.wait()
        await ensure_resources(connection)

    monkeypatch.setattr("pyoco_server.http_api.gateway.ensure_resources", later)
    async with running_gateway(config, ready=False) as gateway:
        submitting = asyncio.create_task(gateway.http.post("/runs", json={"flow_name": "noop"}))
        health = await gateway.http.get("/health")
        assert (health.status_code, health.json()["nats"]["ready"]) == (200, False)
        assert not submitting.done()
        may_prepare.set()
        response = await submitting
        assert response.status_code == 200, response.text


async def test_streams_that_never_come_are_a_503(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: Connection) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("pyoco_server.runs.lifecycle.submission._BUDGET_SEC", 0.1)
    monkeypatch.setattr("pyoco_server.http_api.gateway.ensure_resources", never)
    async with running_gateway(config, ready=False) as gateway:
        await eventually(lambda: gateway.inside.connection.state.up, describe="NATS is connected")
        response = await gateway.http.post("/runs", json={"flow_name": "noop"})
        assert "not prepared yet" in assert_problem(response, 503, 3)["detail"]
