"""`GET /runs/{run_id}/explain` with a real queue and real workers."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.queue import queue_position
from pyoco_server.broker.queue.queue_position import JobLocation, JobState, QueueSearch
from pyoco_server.broker.queue.tag_consumers import consumer_name, ensure_consumer
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.run_models import DeliveryId, RunStatus
from tests.support.broker.nats_server import NatsServer
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import LIMIT_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def explain(gateway: RunningGateway, run_id: str, **headers: str) -> dict[str, Any]:
    response = await gateway.http.get(f"/runs/{run_id}/explain", headers=headers)
    assert response.status_code == 200, response.text
    explanation: dict[str, Any] = response.json()
    return explanation


async def codes(gateway: RunningGateway, run_id: str) -> list[str]:
    return [finding["code"] for finding in (await explain(gateway, run_id))["findings"]]


async def finds(gateway: RunningGateway, run_id: str, code: str) -> dict[str, Any]:
    """The finding of this word, as soon as it is the first one."""

    async def first() -> dict[str, Any] | None:
        finding: dict[str, Any] = (await explain(gateway, run_id))["findings"][0]
        return finding if finding["code"] == code else None

    return await eventually(first, describe=f"{code} is found")


async def test_explain_a_run_without_a_worker_in_both_languages(
    shared_gateway: RunningGateway,
) -> None:
    run_id = await shared_gateway.submit("noop", tag="gpu")
    asked_at = time.time()
    explanation = await explain(shared_gateway, run_id)
    assert (explanation["run_id"], explanation["status"]) == (run_id, "PENDING")
    assert asked_at <= explanation["checked_at"] <= time.time()
    first, second = explanation["findings"]
    assert explanation["summary"] == first["message"]
    assert first == {
        "code": "no_worker_for_tag",
        "message": "No worker serves the tag 'gpu'; active workers serve: -.",
        "evidence": {"tag": "gpu", "served_tags": []},
        "next": {
            "by_itself": "The run stays in the queue and starts as soon as a worker can take it.",
            "actions": [
                {
                    "code": "start_worker",
                    "text": "Start a worker with this tag",
                    "command": "pyoco-worker --flows ./flows --tag gpu",
                    "request": None,
                },
                {
                    "code": "workers",
                    "text": "Check the workers",
                    "command": "pyoco-client workers",
                    "request": "GET /workers",
                },
                {
                    "code": "cancel",
                    "text": "Cancel the run",
                    "command": f"pyoco-client cancel {run_id}",
                    "request": f"POST /runs/{run_id}/cancel",
                },
            ],
        },
    }
    assert second["code"] == "waiting_in_queue"
    assert (second["evidence"]["position"], second["evidence"]["waiting"]) == (1, 1)
    path, headers = f"/runs/{run_id}/explain", {"Accept-Language": "ja, en;q=0.5"}
    response = await shared_gateway.http.get(path, headers=headers)
    assert (response.headers["content-language"], response.headers["vary"]) == ("ja", "Accept-Language")
    japanese = response.json()
    assert japanese["summary"].startswith("タグ「gpu」に対応するワーカーがありません")
    assert japanese["findings"][0]["next"]["actions"][0]["text"] == "このタグのワーカーを起動する"


async def test_runs_of_a_worker_that_is_busy_and_then_stopped(
    config: NatsBackendConfig, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    async with running_gateway(config) as gateway:
        async with serving_worker(config):
            blocking = await gateway.submit("waiting", params={"path": str(go)}, timeout_sec=100)
            await gateway.reaches(blocking, "RUNNING")
            waiting = [await gateway.submit("noop") for _ in range(3)]
            finding = await finds(gateway, waiting[1], "all_slots_busy")
            [worker] = finding["evidence"]["workers"]
            assert (worker["worker_id"], worker["run_ids"]) == ("worker", [blocking])
            [place] = (await explain(gateway, waiting[1]))["findings"][1:]
            assert (place["evidence"]["position"], place["evidence"]["waiting"]) == (2, 3)

            executing = await finds(gateway, blocking, "executing")
            assert executing["evidence"]["running_tasks"] == ["wait_for_file"]
            assert executing["evidence"]["last_finished_task"] is None
            before = time.time()
            entry = JournalEntry(key="load||0", task="load", attempt=1, started_at=1.0, ended_at=2.0)
            await Journal(gateway.inside.connection).append("default", blocking, entry)
            executing, limit = (await explain(gateway, blocking))["findings"]
            assert executing["evidence"]["last_finished_task"] == "load"
            assert before - 1 <= executing["evidence"]["last_finished_at"] <= time.time()
            assert limit["code"] == "time_limit"
            go.touch()
            await gateway.ends(waiting[-1])
            failed = await gateway.submit("failing", params={"message": "no {x}"})
            await gateway.ends(failed)
        assert await codes(gateway, waiting[-1]) == ["completed"]
        await explains_a_failed_run(gateway, failed)
        late = await gateway.submit("noop")
        [worker] = (await finds(gateway, late, "workers_gone"))["evidence"]["workers"]
        assert (worker["worker_id"], worker["state"]) == ("worker", "STOPPED_GRACEFUL")


async def explains_a_failed_run(gateway: RunningGateway, run_id: str) -> None:
    explanation = await explain(gateway, run_id)
    [finding] = explanation["findings"]
    assert (explanation["status"], finding["code"]) == ("FAILED", "failed_execution_error")
    [failed] = finding["evidence"]["failed_tasks"]
    assert failed["task"] == "fail"
    assert "no {x}" in failed["error"]
    assert finding["message"] == f"Task fail failed: {failed['error']}"
    assert finding["next"]["by_itself"] == "This run is finished. Nothing happens unless you rerun it."
    commands = [action["command"] for action in finding["next"]["actions"]]
    assert f"pyoco-client rerun {run_id} --from failed" in commands


async def test_explain_a_run_of_a_dead_worker(shared_gateway: RunningGateway) -> None:
    """As its last heartbeat left it; nobody else is there."""
    run_id = await shared_gateway.submit("noop", tag="orphaned")
    stored = await shared_gateway.inside.runs.store.get(run_id)
    assert stored is not None
    lost = structs.replace(
        stored.snapshot,
        status=RunStatus.RUNNING,
        worker_id="gone",
        attempt=1,
        delivery=DeliveryId(1, 1),
        heartbeat_at=time.time() - 60,
    )
    await shared_gateway.inside.runs.store.replace(lost, revision=stored.revision)
    first, second = (await explain(shared_gateway, run_id))["findings"]
    assert (first["code"], first["evidence"]["worker_id"]) == ("worker_unknown", "gone")
    # Not the default: what applies to the tag.
    assert first["evidence"]["ack_wait_sec"] == shared_gateway.inside.config.consumer_ack_wait_sec
    assert second["code"] == "no_worker_for_tag"


async def test_without_nats_the_explanation_is_503(own_nats: NatsServer, config: NatsBackendConfig) -> None:
    async with running_gateway(replace(config, nats_url=own_nats.url)) as gateway:
        run_id = await gateway.submit("noop")
        own_nats.kill()
        explanation = await explain(gateway, run_id)
        [finding] = explanation["findings"]
        assert (explanation["status"], finding["code"]) == (None, "nats_unavailable")
        assert finding["evidence"]["detail"]
        own_nats.start()
        await finds(gateway, run_id, "no_worker_for_tag")


# Where a job stands, without the HTTP around it. Each test has a queue of its own.


@pytest.fixture
def tag() -> str:
    return f"tag-{uuid4().hex[:8]}"


async def location(
    gateway: RunningGateway, run_id: str, tag: str, submitted_at: float | None = None
) -> JobLocation:
    search = QueueSearch(gateway.inside.connection)
    at = (await gateway.get(run_id))["submitted_at"] if submitted_at is None else submitted_at
    return await search.locate(run_id, tag, at, await search.queue(tag))


async def test_each_job_has_its_position(shared_gateway: RunningGateway, tag: str) -> None:
    run_ids = []
    for _ in range(5):
        run_ids.append(await shared_gateway.submit("noop", tag=tag))
        await shared_gateway.submit("noop", tag="other")
    locations = [await location(shared_gateway, run_id, tag) for run_id in run_ids]
    assert locations == [JobLocation(JobState.WAITING, number) for number in range(1, 6)]


async def test_jobs_in_work_do_not_count(shared_gateway: RunningGateway, tag: str) -> None:
    run_ids = [await shared_gateway.submit("noop", tag=tag) for _ in range(3)]
    await deliver(shared_gateway.inside.connection, tag, 1)
    assert await location(shared_gateway, run_ids[0], tag) == JobLocation(JobState.DELIVERED)
    assert await location(shared_gateway, run_ids[2], tag) == JobLocation(JobState.WAITING, 2)


async def test_a_job_that_was_published_much_later_is_found(shared_gateway: RunningGateway, tag: str) -> None:
    run_ids = [await shared_gateway.submit("noop", tag=tag) for _ in range(2)]
    found = await location(shared_gateway, run_ids[1], tag, time.time() + 900)
    assert found == JobLocation(JobState.WAITING, 2)


async def test_a_job_that_is_not_there(shared_gateway: RunningGateway, tag: str) -> None:
    run_id = await shared_gateway.submit("noop", tag=tag)
    await jetstream_api.purge(shared_gateway.inside.connection, "PYOCO_WORK", f"pyoco.work.{tag}")
    assert await location(shared_gateway, run_id, tag) == JobLocation(JobState.ABSENT)
    await shared_gateway.submit("noop", tag=tag)
    assert await location(shared_gateway, run_id, tag) == JobLocation(JobState.ABSENT)


async def test_a_search_reads_no_more_than_it_may(
    shared_gateway: RunningGateway, tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_position, "_BATCH", 2)
    monkeypatch.setattr(queue_position, "_MOST_BATCHES", 2)
    run_ids = [await shared_gateway.submit("noop", tag=tag) for _ in range(6)]
    later = time.time() + 900
    assert await location(shared_gateway, run_ids[5], tag, later) == JobLocation(JobState.UNKNOWN)
    assert await location(shared_gateway, run_ids[3], tag, later) == JobLocation(JobState.WAITING, 4)


async def deliver(connection: Connection, tag: str, count: int) -> None:
    """Have the queue give jobs to somebody who never begins them."""
    await ensure_consumer(connection, tag)
    context = connection.client.jetstream()
    pull = await context.pull_subscribe_bind(consumer=consumer_name(tag), stream="PYOCO_WORK")
    await pull.fetch(count, timeout=LIMIT_SEC)
