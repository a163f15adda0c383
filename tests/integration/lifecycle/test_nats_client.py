"""Runs over NATS, without HTTP: the same runs as those of a gateway."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from pyoco_server import NatsBackendConfig, PyocoNatsClient
from pyoco_server.errors import IdempotencyConflict, InvalidRequest, NatsUnavailable, RunNotFound
from pyoco_server.records.runs.run_models import new_run_id
from tests.integration.lifecycle.test_large_params import PARAMS
from tests.integration.lifecycle.test_rerun import YAML
from tests.support.clocks import machine_clock_shifted
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import LIMIT_SEC

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(shared_config: NatsBackendConfig) -> AsyncIterator[PyocoNatsClient]:
    async with await PyocoNatsClient.connect(shared_config) as client:
        yield client


async def test_a_run_is_submitted_executed_read_and_repeated(
    client: PyocoNatsClient, shared_config: NatsBackendConfig
) -> None:
    accepted = await client.submit_run("chain", {"x": 41}, "direct", ["direct", "nightly"])
    assert accepted["status"] == "PENDING"
    from_yaml = await client.submit_run_yaml(YAML, "from-yaml", "direct", timeout_sec=60)
    async with serving_worker(shared_config, tags=["direct"]):
        run = await client.wait(accepted["run_id"], LIMIT_SEC)
        assert (await client.wait(from_yaml["run_id"], LIMIT_SEC))["status"] == "COMPLETED"
        again = await client.rerun(accepted["run_id"], "task", "store", keep_answers=True)
        assert (await client.wait(again["run_id"], LIMIT_SEC))["status"] == "COMPLETED"
    assert (run["status"], run["params"], run["tags"]) == ("COMPLETED", {"x": 41}, ["direct", "nightly"])
    assert "task_records" not in run
    records = (await client.get_run(run["run_id"], include=["records"]))["task_records"]
    assert records["store"]["output"] == {"stored": 42}
    repeated = await client.get_run(again["run_id"])
    assert (repeated["origin_run_id"], repeated["keep_answers"]) == (accepted["run_id"], True)


async def test_a_gateway_and_the_client_see_the_same_runs(
    client: PyocoNatsClient, shared_gateway: RunningGateway
) -> None:
    run_id = (await client.submit_run("noop", PARAMS, "nobody"))["run_id"]
    assert (await shared_gateway.get(run_id))["params_sha256"]
    assert (await client.get_run(run_id, include=["full"]))["params"] == PARAMS
    with pytest.raises(TimeoutError, match="is PENDING after"):
        await client.wait(run_id, timeout_sec=0.01)
    cancelled = await client.cancel_run(run_id, "not needed")
    assert cancelled["cancel_reason"] == "not needed"
    assert (await client.wait(run_id, LIMIT_SEC))["status"] == "CANCELLED"
    assert (await shared_gateway.get(run_id))["status"] == "CANCELLED"


async def test_a_key_stands_for_one_run(client: PyocoNatsClient) -> None:
    key = new_run_id()
    first = await client.submit_run("noop", {"x": 1}, "nobody", idempotency_key=key)
    assert await client.submit_run("noop", {"x": 1}, "nobody", idempotency_key=key) == first
    with pytest.raises(IdempotencyConflict):
        await client.submit_run("noop", {"x": 2}, "nobody", idempotency_key=key)


async def test_runs_are_dated_by_the_clock_of_the_server(shared_config: NatsBackendConfig) -> None:
    with machine_clock_shifted(3600.0):
        async with await PyocoNatsClient.connect(shared_config) as wrong:
            run_id = (await wrong.submit_run("noop", tag="nobody"))["run_id"]
            run = await wrong.get_run(run_id)
            await wrong.cancel_run(run_id)
    assert run["submitted_at"] < time.time()


async def test_a_run_starts_later(client: PyocoNatsClient, shared_gateway: RunningGateway) -> None:
    later = await client.submit_run("noop", tag="nobody", delay_sec=3600)
    from_yaml = await client.submit_run_yaml(YAML, "from-yaml", "nobody", start_at="2030-01-01T00:00:00Z")
    for accepted in (later, from_yaml):
        assert accepted["status"] == "SCHEDULED"
        assert (await shared_gateway.get(accepted["run_id"]))["status"] == "SCHEDULED"
        await client.cancel_run(accepted["run_id"])
        assert (await client.wait(accepted["run_id"], LIMIT_SEC))["status"] == "CANCELLED"
    again = await client.rerun(later["run_id"], start_at=time.time() + 3600)
    assert again["status"] == "SCHEDULED"
    assert (await client.submit_run("noop", tag="nobody", start_at=1.0))["status"] == "PENDING"
    for wrong in ({"start_at": "tomorrow"}, {"delay_sec": -1}, {"start_at": 1.0, "delay_sec": 1}):
        with pytest.raises(InvalidRequest):
            await client.submit_run("noop", tag="nobody", **wrong)


async def test_invalid_input_is_refused_and_stores_nothing(client: PyocoNatsClient) -> None:
    with pytest.raises(InvalidRequest, match="tag"):
        await client.submit_run("noop", tag="a.b")
    with pytest.raises(InvalidRequest):
        await client.submit_run("")
    with pytest.raises(InvalidRequest):
        await client.submit_run("noop", {"x": object()})
    with pytest.raises(InvalidRequest, match="flows"):
        await client.submit_run_yaml("version: 1\nflows: {}\n", "f")
    with pytest.raises(RunNotFound):
        await client.get_run(new_run_id())


async def test_nats_that_is_not_there_is_an_error(shared_config: NatsBackendConfig) -> None:
    with pytest.raises(NatsUnavailable):
        await PyocoNatsClient.connect(replace(shared_config, nats_url="nats://127.0.0.1:1"), timeout_sec=0.2)
