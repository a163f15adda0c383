"""`GET /runs/{run_id}/explain` with a real queue and real workers."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.queue import queue_position as queue_place
from pyoco_server.broker.queue.queue_position import JobPlace, QueuePlaces, Standing
from pyoco_server.broker.queue.work_queue import WorkQueue, consumer_name
from pyoco_server.broker.stores.journal_store import Journal
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.models import JournalEntry, RunStatus
from tests.integration.gateway.test_http_errors import assert_problem
from tests.support.broker.nats_server import NatsServer
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import LIMIT_SEC, eventually


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


async def test_explain_a_run_without_a_worker(gateway: RunningGateway) -> None:
    run_id = await gateway.submit("noop", tag="gpu")
    asked_at = time.time()
    explanation = await explain(gateway, run_id)
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
                    "text": "Start a worker with this tag",
                    "command": "pyoco-worker --tag gpu --flows DIR",
                    "request": None,
                },
                {"text": "Check the workers", "command": "pyoco-client workers", "request": "GET /workers"},
                {
                    "text": "Cancel the run",
                    "command": f"pyoco-client cancel --run-id {run_id}",
                    "request": f"POST /runs/{run_id}/cancel",
                },
            ],
        },
    }
    assert second["code"] == "waiting_in_queue"
    assert (second["evidence"]["position"], second["evidence"]["waiting"]) == (1, 1)


async def test_errors_in_japanese(gateway: RunningGateway) -> None:
    run_id = await gateway.submit("noop", tag="gpu")
    response = await gateway.http.get(f"/runs/{run_id}/explain", headers={"Accept-Language": "ja, en;q=0.5"})
    assert (response.headers["content-language"], response.headers["vary"]) == ("ja", "Accept-Language")
    explanation = response.json()
    assert explanation["summary"].startswith("タグ「gpu」に対応するワーカーがありません")
    assert explanation["findings"][0]["next"]["actions"][0]["text"] == "このタグのワーカーを起動する"


@pytest.mark.parametrize("run_id", ["00000000-0000-4000-8000-000000000000", "a.b", "*"])
async def test_explain_an_unknown_run(gateway: RunningGateway, run_id: str) -> None:
    assert_problem(await gateway.http.get(f"/runs/{run_id}/explain"), 404, 5)


async def test_every_slot_is_busy_and_with_what(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    async with serving_worker(config):
        blocking = await gateway.submit("waiting", params={"path": str(go)})
        await gateway.reaches(blocking, "RUNNING")
        waiting = [await gateway.submit("noop") for _ in range(3)]
        finding = await finds(gateway, waiting[1], "all_slots_busy")
        [worker] = finding["evidence"]["workers"]
        assert (worker["worker_id"], worker["run_ids"]) == ("worker", [blocking])
        [place] = (await explain(gateway, waiting[1]))["findings"][1:]
        assert (place["evidence"]["position"], place["evidence"]["waiting"]) == (2, 3)

        executing = await finds(gateway, blocking, "executing")
        assert executing["evidence"]["running_tasks"] == ["wait_for_file"]
        go.touch()
        await gateway.ends(waiting[-1])
    assert await codes(gateway, waiting[-1]) == ["completed"]


async def test_last_finished_task_of_a_running_run(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    async with serving_worker(config):
        go = tmp_path / "go"
        run_id = await gateway.submit("waiting", params={"path": str(go)}, timeout_sec=100)
        finding = await finds(gateway, run_id, "executing")
        assert finding["evidence"]["last_finished_task"] is None
        before = time.time()
        entry = JournalEntry(key="load||0", task="load", attempt=1, started_at=1.0, ended_at=2.0)
        await Journal(gateway.inside.connection).append(run_id, entry)
        explanation = await explain(gateway, run_id)
        executing, limit = explanation["findings"]
        assert executing["evidence"]["last_finished_task"] == "load"
        assert executing["evidence"]["last_finished_at"] == pytest.approx(before, abs=5)
        assert limit["code"] == "time_limit"
        go.touch()
        await gateway.ends(run_id)


async def test_explain_a_run_of_a_dead_worker(config: NatsBackendConfig, gateway: RunningGateway) -> None:
    """As its last heartbeat left it; nobody else is there."""
    run_id = await gateway.submit("noop")
    stored = await gateway.inside.runs.store.get(run_id)
    assert stored is not None
    lost = structs.replace(
        stored.snapshot,
        status=RunStatus.RUNNING,
        worker_id="gone",
        attempt=1,
        delivery=(1, 1),
        heartbeat_at=time.time() - 60,
    )
    await gateway.inside.runs.store.replace(lost, revision=stored.revision)
    first, second = (await explain(gateway, run_id))["findings"]
    assert (first["code"], first["evidence"]["worker_id"]) == ("worker_unknown", "gone")
    # Not the default: what applies to the tag.
    assert first["evidence"]["ack_wait_sec"] == config.consumer_ack_wait_sec
    assert second["code"] == "no_worker_for_tag"


async def test_a_run_that_failed_says_where_and_how_to_continue(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(config):
        run_id = (await gateway.ends(await gateway.submit("failing", params={"message": "no {x}"})))["run_id"]
    explanation = await explain(gateway, run_id)
    [finding] = explanation["findings"]
    assert (explanation["status"], finding["code"]) == ("FAILED", "failed_execution_error")
    [failed] = finding["evidence"]["failed_tasks"]
    assert failed["task"] == "fail"
    assert "no {x}" in failed["error"]
    commands = [action["command"] for action in finding["next"]["actions"]]
    assert f"pyoco-client rerun --run-id {run_id} --from failed" in commands


async def test_explain_a_stopped_worker(config: NatsBackendConfig, gateway: RunningGateway) -> None:
    async with serving_worker(config, worker_id="early"):
        await gateway.ends(await gateway.submit("noop"))
    run_id = await gateway.submit("noop")
    finding = await finds(gateway, run_id, "workers_gone")
    [worker] = finding["evidence"]["workers"]
    assert (worker["worker_id"], worker["state"]) == ("early", "STOPPED_GRACEFUL")


async def test_without_nats_the_explanation_is_503(own_nats: NatsServer, config: NatsBackendConfig) -> None:
    async with running_gateway(replace(config, nats_url=own_nats.url)) as gateway:
        run_id = await gateway.submit("noop")
        own_nats.kill()
        explanation = await explain(gateway, run_id)
        [finding] = explanation["findings"]
        assert (explanation["status"], finding["code"]) == (None, "nats_unavailable")
        assert finding["evidence"]["detail"]
        assert_problem(await gateway.http.get("/runs/nonsense/explain"), 404, 5)
        own_nats.start()
        await finds(gateway, run_id, "no_worker_for_tag")


class TestPlaces:
    """Where a job stands, without the HTTP around it."""

    async def place(
        self, gateway: RunningGateway, run_id: str, submitted_at: float | None = None
    ) -> JobPlace:
        places = QueuePlaces(gateway.inside.connection)
        run = await gateway.get(run_id)
        at = run["submitted_at"] if submitted_at is None else submitted_at
        return await places.place(run_id, "default", at, await places.queue("default"))

    async def test_each_has_its_position(self, gateway: RunningGateway) -> None:
        run_ids = []
        for _ in range(5):
            run_ids.append(await gateway.submit("noop"))
            await gateway.submit("noop", tag="other")
        places = [await self.place(gateway, run_id) for run_id in run_ids]
        assert places == [JobPlace(Standing.WAITING, number) for number in range(1, 6)]

    async def test_jobs_in_work_do_not_count(self, gateway: RunningGateway) -> None:
        run_ids = [await gateway.submit("noop") for _ in range(3)]
        await deliver(gateway.inside.connection, "default", 1)
        assert await self.place(gateway, run_ids[0]) == JobPlace(Standing.DELIVERED)
        assert await self.place(gateway, run_ids[2]) == JobPlace(Standing.WAITING, 2)

    async def test_a_job_that_was_published_much_later_is_found(self, gateway: RunningGateway) -> None:
        run_ids = [await gateway.submit("noop") for _ in range(2)]
        assert await self.place(gateway, run_ids[1], time.time() + 900) == JobPlace(Standing.WAITING, 2)

    async def test_a_job_that_is_not_there(self, gateway: RunningGateway) -> None:
        run_id = await gateway.submit("noop")
        await jetstream_api.purge(gateway.inside.connection, "PYOCO_WORK", "pyoco.work.default")
        assert await self.place(gateway, run_id) == JobPlace(Standing.ABSENT)
        await gateway.submit("noop")
        assert await self.place(gateway, run_id) == JobPlace(Standing.ABSENT)

    async def test_a_search_reads_no_more_than_it_may(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(queue_place, "_BATCH", 2)
        monkeypatch.setattr(queue_place, "_MOST_BATCHES", 2)
        run_ids = [await gateway.submit("noop") for _ in range(6)]
        assert await self.place(gateway, run_ids[5], time.time() + 900) == JobPlace(Standing.UNKNOWN)
        assert await self.place(gateway, run_ids[3], time.time() + 900) == JobPlace(Standing.WAITING, 4)


async def deliver(connection: Connection, tag: str, count: int) -> None:
    """Have the queue give jobs to somebody who never begins them."""
    await WorkQueue(connection).ensure_consumer(tag)
    context = connection.client.jetstream()
    pull = await context.pull_subscribe_bind(consumer=consumer_name(tag), stream="PYOCO_WORK")
    await pull.fetch(count, timeout=LIMIT_SEC)
