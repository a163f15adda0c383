"""`GET /metrics`: every row of the table, with correct values."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pyoco_server import __version__
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.direct_client import DirectClient
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.queue.queue_depths import QueueDepth, QueueDepths
from pyoco_server.broker.queue.tag_consumers import ensure_consumer
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import IndexNotReady, WaitExpired
from pyoco_server.http_api.metrics.metric_table import METRICS
from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus, encode, pending_snapshot
from pyoco_server.records.waits.wait_models import Actor
from pyoco_server.records.workers.worker_models import WorkerState
from pyoco_server.runs.lifecycle.submission import new_job
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.waits.human.answers.answering import Answer, AnswerHandler
from tests.support.broker.nats_server import NatsServer
from tests.support.broker.stored_runs import signed, snapshot, write
from tests.support.broker.worker_records import a_record, ask, put_record
from tests.support.problems import assert_problem
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.waiting_runs import waiting_run
from tests.support.running.workers import serving_worker
from tests.support.scrape import Scrape
from tests.support.waiting import LIMIT_SEC, eventually


async def scrape(gateway: RunningGateway) -> Scrape:
    response = await gateway.http.get("/metrics")
    assert response.status_code == 200, response.text
    return Scrape(response.text)


async def scrape_when(
    gateway: RunningGateway, condition: Callable[[Scrape], bool], *, describe: str
) -> Scrape:
    async def fulfilled() -> Scrape | None:
        found = await scrape(gateway)
        return found if condition(found) else None

    return await eventually(fulfilled, describe=describe)


async def test_a_fresh_server_has_every_metric_and_counts_nothing(gateway: RunningGateway) -> None:
    found = await scrape_when(
        gateway, lambda page: page.value("pyoco_index_ready") == 1, describe="the index is ready"
    )
    assert found.labels("pyoco_runs_total", "status") == set(RunStatus)
    for status in RunStatus:
        assert found.value("pyoco_runs_total", status=status) == 0
    for state in WorkerState:
        assert found.value("pyoco_workers", state=state) == 0
    for name in ("pyoco_workers_alive_total", "pyoco_worker_slots", "pyoco_dlq_messages_total"):
        assert found.value(name) == 0
    assert found.value("pyoco_redeliveries_total") == 0
    assert found.value("pyoco_nats_connected") == 1
    assert found.value("pyoco_nats_reconnects_total") == 0
    started_at = found.value("pyoco_start_time_seconds")
    assert started_at is not None
    assert started_at <= time.time()

    response = await gateway.http.get("/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    for metric in METRICS:
        assert f"# HELP {metric.name} {metric.help}\n" in response.text
        assert f"# TYPE {metric.name} {metric.kind}\n" in response.text
    lines = response.text.splitlines()
    assert {line.split()[2] for line in lines if line.startswith("# TYPE ")} == {
        metric.name for metric in METRICS
    }
    [build] = [line for line in lines if line.startswith("pyoco_build_info")]
    assert f'version="{__version__}"' in build


async def test_runs_and_waiting_jobs_are_counted_and_timed(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(config, concurrency=2):
        for _ in range(3):
            await gateway.ends(await gateway.submit("noop"))
        await gateway.ends(await gateway.submit("failing"))
        found = await scrape_when(
            gateway,
            lambda page: (
                page.value("pyoco_runs_ended_total", flow="failing", status="FAILED") == 1
                and page.value("pyoco_runs_ended_total", flow="noop", status="COMPLETED") == 3
                # A worker writes the dead letter after the end of its run.
                and page.value("pyoco_dlq_messages_total") == 1
            ),
            describe="the feed has seen the runs end",
        )
    assert found.value("pyoco_runs_total", status="COMPLETED") == 3
    assert found.value("pyoco_runs_total", status="FAILED") == 1
    assert found.value("pyoco_run_duration_seconds_count", flow="noop") == 3
    assert found.value("pyoco_run_schedule_to_start_seconds_count", flow="noop") == 3
    assert found.value("pyoco_run_schedule_to_start_seconds_bucket", flow="noop", le="+Inf") == 3
    waited = found.value("pyoco_run_schedule_to_start_seconds_sum", flow="noop")
    assert waited is not None
    assert waited > 0
    size = found.value("pyoco_dlq_bytes")
    assert size is not None
    assert size > 100

    # One tag that no worker ever served, and one that had a worker.
    submitted_at = time.monotonic()
    for tag in ("gpu", "gpu", "default"):
        await gateway.submit("noop", tag=tag)
    # The server counts a job for its consumer a moment after it has taken it.
    first = await scrape_when(
        gateway,
        lambda page: page.value("pyoco_queue_waiting_jobs", tag="default") != 0,
        describe="the job is counted",
    )
    assert first.value("pyoco_queue_waiting_jobs", tag="gpu") == 2
    assert first.value("pyoco_queue_waiting_jobs", tag="default") == 1
    ages = [first.value("pyoco_queue_oldest_waiting_seconds", tag=tag) for tag in ("gpu", "default")]
    for tag, age in zip(("gpu", "default"), ages, strict=True):
        assert age is not None

        def older(page: Scrape, tag: str = tag, age: float = age) -> bool:
            now = page.value("pyoco_queue_oldest_waiting_seconds", tag=tag)
            # The age is rounded.
            return now is not None and age + 0.1 < now < time.monotonic() - submitted_at + 1

        await scrape_when(gateway, older, describe="the oldest job has become older")


async def test_workers_and_their_slots_are_counted(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    now = time.time()
    await put_record(gateway.inside.connection, a_record("gone", seen_at=now - 3600, slots=8))
    await put_record(gateway.inside.connection, a_record("other", seen_at=now + 600, tags=["x"], slots=1))
    async with serving_worker(config, concurrency=2):
        release = tmp_path / "release"
        run_id = await gateway.submit("waiting", params={"path": str(release)})
        await ask(gateway, "other", paused=True)
        found = await scrape_when(
            gateway, lambda page: page.value("pyoco_worker_slots_busy") == 1, describe="a slot is busy"
        )
        assert found.value("pyoco_workers_alive_total") == 2
        assert found.value("pyoco_workers", state="RUNNING") == 1
        assert found.value("pyoco_workers", state="DISCONNECTED") == 1
        assert found.value("pyoco_workers_paused") == 1
        assert found.value("pyoco_worker_slots") == 3
        assert found.value("pyoco_queue_in_work_jobs", tag="default") == 1
        release.touch()
        await gateway.ends(run_id)


async def test_the_oldest_job_is_the_oldest_that_waits_and_not_one_in_work(connection: Connection) -> None:
    queue = WorkQueue(connection)
    await ensure_consumer(connection, "default")
    await queue.publish(new_job(flow_name="f", tag="default"), run_revision=1)
    await taken_by_somebody(connection)
    [depth] = await QueueDepths(connection).read(10)
    assert (depth.waiting, depth.in_work, depth.oldest_sec) == (0, 1, 0.0)
    old = (await aged(connection, in_work=1, waiting=0)).oldest_sec
    assert old == 0.0
    await queue.publish(new_job(flow_name="f", tag="default"), run_revision=1)
    depth = await aged(connection, in_work=1, waiting=1)
    assert depth.oldest_sec > 0


async def taken_by_somebody(connection: Connection) -> None:
    subscription = await connection.client.jetstream().pull_subscribe_bind(
        "pyoco_worker_default", stream="PYOCO_WORK"
    )
    await subscription.fetch(1, timeout=LIMIT_SEC)


async def aged(connection: Connection, *, in_work: int, waiting: int) -> QueueDepth:
    async def there() -> QueueDepth | None:
        [depth] = await QueueDepths(connection).read(10)
        return depth if (depth.in_work, depth.waiting) == (in_work, waiting) else None

    return await eventually(there, describe=f"{in_work} in work, {waiting} waiting")


async def test_only_the_longest_queues_are_reported(connection: Connection) -> None:
    queue = WorkQueue(connection)
    for number in range(6):
        for _ in range(number + 1):
            await queue.publish(new_job(flow_name="f", tag=f"t{number}"), run_revision=1)
    depths = await QueueDepths(connection).read(3)
    assert [(depth.tag, depth.waiting) for depth in depths] == [("t5", 6), ("t4", 5), ("t3", 4)]


async def test_a_consumer_for_every_tag_is_found_however_many(connection: Connection) -> None:
    """The server answers with 256 at a time."""
    async with asyncio.TaskGroup() as group:
        for number in range(300):
            group.create_task(ensure_consumer(connection, f"t{number}"))
    depths = await QueueDepths(connection).read(1000)
    assert {depth.tag for depth in depths} == {f"t{number}" for number in range(300)}


async def test_requests_are_counted_by_route_and_never_by_path(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a mistake of ours")

    await gateway.submit("noop", tag="nobody")
    for path in ("/runs/not-an-id", "/runs/neither", "/no/such/path", "/no/such/other"):
        assert (await gateway.http.get(path)).status_code == 404
    await gateway.http.request("BREW", "/runs")
    await gateway.http.post("/runs", json={}, headers={"Origin": "https://attacker.example"})
    with monkeypatch.context() as patched:
        patched.setattr(type(gateway.inside.workers), "all", broken)
        assert (await gateway.http.get("/workers")).status_code == 500
    found = await scrape(gateway)

    def count(method: str, route: str, status: str) -> float | None:
        return found.value("pyoco_http_requests_total", method=method, route=route, status=status)

    assert count("POST", "/runs", "200") == 1
    assert count("GET", "/runs/{run_id}", "404") == 2
    assert count("GET", "none", "404") == 2
    assert count("POST", "none", "403") == 1
    assert count("GET", "/workers", "500") == 1
    assert "not-an-id" not in found.text
    assert "BREW" not in found.text
    assert found.value("pyoco_http_request_seconds_count", route="/runs/{run_id}") == 2
    found = await scrape(gateway)
    assert count("GET", "/metrics", "200") == 1


async def test_while_the_index_is_being_built_the_runs_are_not_counted(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def not_ready(*_: object) -> None:
        raise IndexNotReady

    monkeypatch.setattr(type(gateway.inside.listing.lists), "counts", not_ready)
    found = await scrape(gateway)
    assert found.labels("pyoco_runs_total", "status") == set()
    assert found.value("pyoco_workers_alive_total") == 0


async def test_sweep_actions_are_counted(config: NatsBackendConfig) -> None:
    quick = replace(config, sweep_interval_sec=0.2)
    async with running_gateway(quick) as gateway:
        # Nobody has published the job of this run.
        job = new_job(flow_name="f", tag="default")
        subject = f"$KV.{config.runs_kv_bucket}.{job.run_id}"
        run = await signed(gateway.inside.connection, pending_snapshot(job))
        await publish_acked(gateway.inside.connection, subject, encode(run))
        found = await scrape_when(
            gateway,
            lambda page: page.value("pyoco_sweep_actions_total", action="job_published") == 1,
            describe="the sweep has published the job",
        )
        assert found.value("pyoco_sweep_leader") == 1
        rounds = found.value("pyoco_sweep_rounds_total")
        assert rounds is not None
        assert rounds > 0


async def test_a_scrape_costs_the_same_however_many_runs_there_are(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    publish = DirectClient.try_publish

    def noting(self: DirectClient, subject: str, *arguments: Any) -> bool:
        sent.append(subject)
        return publish(self, subject, *arguments)

    async def requests_of_a_scrape(runs: int) -> int:
        await scrape_when(
            gateway,
            lambda page: page.value("pyoco_runs_total", status="PENDING") == runs,
            describe="the index knows every run",
        )
        sent.clear()
        await scrape(gateway)
        # The sweep and the feed do not rest meanwhile, but they do not ask about single runs.
        return len(sent)

    monkeypatch.setattr(DirectClient, "try_publish", noting)
    await gateway.submit("noop", tag="nobody")
    few = await requests_of_a_scrape(1)
    assert few, "what a scrape asks for is not seen here"
    for _ in range(100):
        await gateway.submit("noop", tag="nobody")
    assert await requests_of_a_scrape(101) < few + 20


async def test_without_nats_the_answer_is_503_and_the_way_back_is_counted(
    own_nats: NatsServer, config: NatsBackendConfig
) -> None:
    config = replace(config, nats_url=own_nats.url)
    async with running_gateway(config) as gateway:
        assert (await gateway.http.get("/metrics")).status_code == 200
        own_nats.stop()
        assert_problem(await gateway.http.get("/metrics"), 503, 3)
        own_nats.start()
        await gateway.inside.connection.wait_ready(LIMIT_SEC)
        found = await scrape(gateway)
        assert found.value("pyoco_nats_reconnects_total") == 1


# Schedule-to-start is observed once per run, also after a restart and a retry.


def running() -> RunSnapshot:
    now = time.time()
    return snapshot(status=RunStatus.RUNNING, submitted_at=now - 5, start_time=now)


async def index_is_ready(gateway: RunningGateway) -> None:
    await eventually(lambda: gateway.inside.listing.lists.ready, describe="the index is ready")


async def observed(gateway: RunningGateway) -> float | None:
    await gateway.inside.listing.lists.caught_up()
    return (await scrape(gateway)).value("pyoco_run_schedule_to_start_seconds_count", flow="noop")


async def rewrite(gateway: RunningGateway, run_id: str, **fields: Any) -> None:
    stored = await gateway.inside.runs.store.get_from_leader(run_id)
    assert stored is not None
    await gateway.inside.runs.store.replace(
        structs.replace(stored.snapshot, **fields), revision=stored.revision
    )


@pytest.mark.parametrize("keeps_its_index", [True, False])
async def test_a_gateway_does_not_observe_a_start_again_after_a_restart(
    config: NatsBackendConfig, keeps_its_index: bool
) -> None:
    async with running_gateway(config) as gateway:
        await index_is_ready(gateway)
        [run_id] = await write(gateway.inside.runs.store, running())
        assert await observed(gateway) == 1
    after = config if keeps_its_index else replace(config, index_dir=f"{config.index_dir}-other")
    async with running_gateway(after) as gateway:
        await index_is_ready(gateway)
        await rewrite(gateway, run_id, heartbeat_at=time.time())
        assert await observed(gateway) is None
        await rewrite(gateway, run_id, status=RunStatus.COMPLETED, end_time=time.time())
        assert await observed(gateway) is None
        await write(gateway.inside.runs.store, running())
        assert await observed(gateway) == 1


async def test_a_gateway_does_not_observe_the_start_of_a_run_that_is_retried_after_its_restart(
    config: NatsBackendConfig,
) -> None:
    async with running_gateway(config) as gateway:
        await index_is_ready(gateway)
        run = await waiting_run(gateway.inside.connection, submitted_at=time.time() - 5)
        assert await observed(gateway) == 1
        late = AnswerHandler(gateway.inside.connection, clock=lambda: run.waits[0].deadline_at)
        with pytest.raises(WaitExpired):
            await late.respond(run.wait_id, Answer(payload=1), ANYBODY, Actor())
    async with running_gateway(config) as gateway:
        await index_is_ready(gateway)
        response = await gateway.http.post(f"/runs/{run.run_id}/retry")
        assert (response.status_code, response.json()["status"]) == (200, "WAITING_HUMAN")
        assert await observed(gateway) is None
        await rewrite(gateway, run.run_id, status=RunStatus.COMPLETED, end_time=time.time())
        assert await observed(gateway) is None
