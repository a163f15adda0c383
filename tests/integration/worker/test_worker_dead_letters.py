"""Dead letters of jobs that fail, cannot be decoded, or belong to an ended run."""

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyoco_server.broker.jetstream.publishing import publish_acked
from tests.integration.worker.conftest import OwnQueue
from tests.support.inspection import dead_letters

pytestmark = pytest.mark.asyncio(loop_scope="module")

INVALID_JOBS = [
    b"",
    b"{not json",
    b"[]",
    b'{"run_id": "x"}',
    b'{"flow_name": "f"}',
    b'{"run_id": "\xff"}',
    b'{"params": ' + b"[" * 5000,
]


async def letters_of(queue: OwnQueue) -> list[dict[str, Any]]:
    return [letter for letter in await dead_letters(queue.gateway) if letter["tag"] == queue.tag]


async def publish(queue: OwnQueue, payload: bytes) -> None:
    await publish_acked(queue.gateway.inside.connection, f"pyoco.work.{queue.tag}", payload)


async def test_failures_are_published_as_dead_letters(own_queue: OwnQueue) -> None:
    submitted_at, tag = time.time(), own_queue.tag
    async with own_queue.worker("w"):
        failing = await own_queue.run("failing", params={"message": "no disk"}, tags=["nightly"])
        unknown = await own_queue.run("nobody-knows")
        await own_queue.becomes_empty()
    first, second = await letters_of(own_queue)
    assert first["subject_of_letter"] == f"pyoco.dlq.{tag}"
    assert first["reason"] == "execution_error"
    assert first["error"] == "task fail: ValueError: no disk"
    assert (first["run_id"], first["flow_name"], first["tag"]) == (failing["run_id"], "failing", tag)
    assert (first["tags"], first["worker_id"], first["num_delivered"]) == (["nightly"], "w", 1)
    assert first["subject"] == f"pyoco.work.{tag}"
    assert submitted_at <= first["timestamp"] <= time.time()
    assert (second["reason"], second["run_id"]) == ("flow_not_found", unknown["run_id"])


async def test_execution_errors_can_be_excluded_from_dead_letters(own_queue: OwnQueue) -> None:
    async with own_queue.worker(dlq_publish_execution_error=False):
        await own_queue.run("failing")
        await own_queue.run("nobody-knows")
        await own_queue.becomes_empty()
    assert [letter["reason"] for letter in await letters_of(own_queue)] == ["flow_not_found"]


async def test_a_job_that_cannot_be_decoded_is_terminated(own_queue: OwnQueue) -> None:
    async with own_queue.worker():
        for payload in INVALID_JOBS:
            await publish(own_queue, payload)
        # TERM removes them.
        await own_queue.becomes_empty()
        assert (await own_queue.run("noop"))["status"] == "COMPLETED"
    letters = await letters_of(own_queue)
    assert [letter["reason"] for letter in letters] == ["invalid_job"] * len(INVALID_JOBS)


async def test_a_job_that_cannot_be_decoded_fails_its_run(own_queue: OwnQueue) -> None:
    gateway = own_queue.gateway
    run_id = await gateway.submit("noop", tag="elsewhere")
    async with own_queue.worker():
        await publish(own_queue, msgspec.json.encode({"run_id": run_id, "flow_name": 5}))
        run = await gateway.ends(run_id)
    assert (run["status"], run["reason"]) == ("FAILED", "invalid_job")
    assert "flow_name" in run["error"]


async def test_a_redelivery_for_an_ended_run_executes_nothing(own_queue: OwnQueue, tmp_path: Path) -> None:
    counter = tmp_path / "executions"
    run_id = await own_queue.submit("counting", params={"counter": str(counter), "seconds": 0})
    context = own_queue.gateway.inside.connection.client.jetstream()
    job = (await context.get_last_msg("PYOCO_WORK", f"pyoco.work.{own_queue.tag}")).data or b""
    async with own_queue.worker():
        await own_queue.gateway.ends(run_id)
        await publish(own_queue, job)
        await own_queue.becomes_empty()
    assert counter.read_text() == "executed\n"
