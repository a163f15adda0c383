"""Dead letters of jobs that fail, cannot be decoded, or belong to an ended run."""

import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.config import NatsBackendConfig
from tests.support.inspection import dead_letters, queue_is_empty
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually


async def test_failures_are_published_as_dead_letters(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    submitted_at = time.time()
    async with serving_worker(config):
        failing = await gateway.submit("failing", params={"message": "no disk"}, tags=["nightly"])
        await gateway.ends(failing)
        unknown = await gateway.submit("nobody-knows")
        await gateway.ends(unknown)
        assert await eventually(lambda: queue_is_empty(gateway), describe="both are acked")
    first, second = await dead_letters(gateway)
    assert first["subject_of_letter"] == "pyoco.dlq.default"
    assert first["reason"] == "execution_error"
    assert first["error"] == "task fail: ValueError: no disk"
    assert (first["run_id"], first["flow_name"], first["tag"]) == (failing, "failing", "default")
    assert (first["tags"], first["worker_id"], first["num_delivered"]) == (["nightly"], "worker", 1)
    assert first["subject"] == "pyoco.work.default"
    assert submitted_at <= first["timestamp"] <= time.time()
    assert (second["reason"], second["run_id"]) == ("flow_not_found", unknown)


async def test_execution_errors_can_be_excluded_from_dead_letters(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(replace(config, dlq_publish_execution_error=False)):
        await gateway.ends(await gateway.submit("failing"))
        await gateway.ends(await gateway.submit("nobody-knows"))
    assert [letter["reason"] for letter in await dead_letters(gateway)] == ["flow_not_found"]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{not json",
        b"[]",
        b'{"run_id": "x"}',
        b'{"flow_name": "f"}',
        b'{"run_id": "\xff"}',
        b'{"params": ' + b"[" * 5000,
    ],
)
async def test_a_job_that_cannot_be_decoded_is_terminated(
    config: NatsBackendConfig, gateway: RunningGateway, payload: bytes
) -> None:
    async with serving_worker(config):
        await publish_acked(gateway.inside.connection, "pyoco.work.default", payload)
        letters = await eventually(lambda: dead_letters(gateway), describe="a dead letter")
        assert [letter["reason"] for letter in letters] == ["invalid_job"]
        assert await eventually(lambda: queue_is_empty(gateway), describe="TERM removed it")
        assert (await gateway.ends(await gateway.submit("noop")))["status"] == "COMPLETED"


async def test_a_job_that_cannot_be_decoded_fails_its_run(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    run_id = await gateway.submit("noop", tag="elsewhere")
    async with serving_worker(config):
        broken = msgspec.json.encode({"run_id": run_id, "flow_name": 5})
        await publish_acked(gateway.inside.connection, "pyoco.work.default", broken)
        run = await gateway.ends(run_id)
        assert (run["status"], run["reason"]) == ("FAILED", "invalid_job")
        assert "flow_name" in run["error"]


async def test_a_redelivery_for_an_ended_run_executes_nothing(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    counter = tmp_path / "executions"
    run_id = await gateway.submit("counting", params={"counter": str(counter), "seconds": 0})
    context = gateway.inside.connection.client.jetstream()
    job = (await context.get_msg("PYOCO_WORK", seq=1)).data or b""
    async with serving_worker(config):
        await gateway.ends(run_id)
        await publish_acked(gateway.inside.connection, "pyoco.work.default", job)
        assert await eventually(lambda: queue_is_empty(gateway), describe="the copy is dropped")
    assert counter.read_text() == "executed\n"
