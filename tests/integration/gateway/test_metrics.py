"""`GET /metrics`: every row of the table, with correct values."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pyoco_server import __version__
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.direct_client import DirectClient
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.queue.queue_depths import QueueDepths
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import IndexNotReady
from pyoco_server.http_api.metrics.metric_page import Distribution, MetricPage
from pyoco_server.http_api.metrics.metric_table import METRICS, Kind
from pyoco_server.http_api.metrics.run_timings import MAX_FLOWS, OTHER_FLOWS, RunTimings
from pyoco_server.records.models import Job, RunStatus, WorkerState, encode, pending_snapshot
from pyoco_server.runs.index.run_summary import summary_of
from pyoco_server.runs.lifecycle.submission import new_job
from pyoco_server.runs.watch.run_hub import RunChange
from tests.integration.gateway.test_http_errors import assert_problem
from tests.support.broker.connections import connected
from tests.support.broker.nats_server import NatsServer
from tests.support.broker.worker_records import a_record, ask, put_record
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import LIMIT_SEC, eventually

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples_in(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class Scrape:
    """One answer of `/metrics`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._samples = samples_in(text)

    def value(self, name: str, **labels: str) -> float | None:
        return self._samples.get((name, tuple(sorted(labels.items()))))

    def labels(self, name: str, label: str) -> set[str]:
        return {dict(labels)[label] for sample, labels in self._samples if sample == name}


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


async def test_the_answer_is_prometheus_text_with_help_and_type_of_each_row(gateway: RunningGateway) -> None:
    response = await gateway.http.get("/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    for metric in METRICS:
        assert f"# HELP {metric.name} {metric.help}\n" in response.text
        assert f"# TYPE {metric.name} {metric.kind}\n" in response.text
    reported = {line.split()[2] for line in response.text.splitlines() if line.startswith("# TYPE ")}
    assert reported == {metric.name for metric in METRICS}
    [build] = [line for line in response.text.splitlines() if line.startswith("pyoco_build_info")]
    assert f'version="{__version__}"' in build


async def test_runs_are_counted_and_timed(config: NatsBackendConfig, gateway: RunningGateway) -> None:
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
        assert 0 < waited < 10
        assert found.value("pyoco_dlq_messages_total") == 1
        size = found.value("pyoco_dlq_bytes")
        assert size is not None
        assert size > 100


async def test_workers_and_their_slots_are_counted(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    await put_record(gateway.inside.connection, a_record("gone", seen_at=time.time() - 3600, slots=8))
    async with serving_worker(config, concurrency=2), serving_worker(config, worker_id="other", tags=["x"]):
        release = tmp_path / "release"
        run_id = await gateway.submit("waiting", params={"path": str(release)})
        await ask(gateway, "other", paused=True)
        found = await scrape_when(
            gateway,
            lambda page: (
                page.value("pyoco_worker_slots_busy") == 1 and page.value("pyoco_workers_alive_total") == 2
            ),
            describe="a slot is busy, and both were heard of lately",
        )
        assert found.value("pyoco_workers_alive_total") == 2
        assert found.value("pyoco_workers", state="RUNNING") == 1
        assert found.value("pyoco_workers", state="DISCONNECTED") == 1
        assert found.value("pyoco_workers_paused") == 1
        assert found.value("pyoco_worker_slots") == 3
        assert found.value("pyoco_queue_in_work_jobs", tag="default") == 1
        release.touch()
        await gateway.ends(run_id)


async def test_waiting_jobs_and_their_age_are_reported_by_tag(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    # One tag that no worker ever served, and one that had a worker.
    async with serving_worker(config):
        await gateway.ends(await gateway.submit("noop"))
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


async def test_the_oldest_job_is_the_oldest_that_waits_and_not_one_in_work(config: NatsBackendConfig) -> None:
    async with connected(config) as connection:
        queue = WorkQueue(connection)
        await queue.ensure_consumer("default")
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


async def aged(connection: Connection, *, in_work: int, waiting: int) -> Any:
    async def there() -> Any:
        [depth] = await QueueDepths(connection).read(10)
        return depth if (depth.in_work, depth.waiting) == (in_work, waiting) else None

    return await eventually(there, describe=f"{in_work} in work, {waiting} waiting")


async def test_only_the_longest_queues_are_reported(config: NatsBackendConfig) -> None:
    async with connected(config) as connection:
        queue = WorkQueue(connection)
        for number in range(6):
            for _ in range(number + 1):
                await queue.publish(new_job(flow_name="f", tag=f"t{number}"), run_revision=1)
        depths = await QueueDepths(connection).read(3)
        assert [(depth.tag, depth.waiting) for depth in depths] == [("t5", 6), ("t4", 5), ("t3", 4)]


async def test_a_consumer_for_every_tag_is_found_however_many(config: NatsBackendConfig) -> None:
    """The server answers with 256 at a time."""
    async with connected(config) as connection:
        queue = WorkQueue(connection)
        async with asyncio.TaskGroup() as group:
            for number in range(300):
                group.create_task(queue.ensure_consumer(f"t{number}"))
        depths = await QueueDepths(connection).read(1000)
        assert {depth.tag for depth in depths} == {f"t{number}" for number in range(300)}


async def test_requests_are_counted_by_route_and_never_by_path(gateway: RunningGateway) -> None:
    await gateway.submit("noop", tag="nobody")
    for path in ("/runs/not-an-id", "/runs/neither", "/no/such/path", "/no/such/other"):
        assert (await gateway.http.get(path)).status_code == 404
    await gateway.http.request("BREW", "/runs")
    found = await scrape(gateway)
    assert found.value("pyoco_http_requests_total", method="POST", route="/runs", status="200") == 1
    assert found.value("pyoco_http_requests_total", method="GET", route="/runs/{run_id}", status="404") == 2
    assert found.value("pyoco_http_requests_total", method="GET", route="none", status="404") == 2
    assert "not-an-id" not in found.text
    assert "BREW" not in found.text
    assert found.value("pyoco_http_request_seconds_count", route="/runs/{run_id}") == 2
    again = await scrape(gateway)
    assert again.value("pyoco_http_requests_total", method="GET", route="/metrics", status="200") == 1


async def test_an_error_of_the_gateway_counts_as_500(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(type(gateway.inside.workers), "all", broken)
    assert (await gateway.http.get("/workers")).status_code == 500
    monkeypatch.undo()
    found = await scrape(gateway)
    assert found.value("pyoco_http_requests_total", method="GET", route="/workers", status="500") == 1


async def test_sweep_actions_are_counted(config: NatsBackendConfig) -> None:
    quick = replace(config, sweep_interval_sec=0.2)
    async with running_gateway(quick) as gateway:
        # Nobody has published the job of this run.
        job = new_job(flow_name="f", tag="default")
        subject = f"$KV.{config.runs_kv_bucket}.{job.run_id}"
        await publish_acked(gateway.inside.connection, subject, encode(pending_snapshot(job)))
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


async def test_while_the_index_is_being_built_the_runs_are_not_counted(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def not_ready(*_: object) -> None:
        raise IndexNotReady

    monkeypatch.setattr(type(gateway.inside.listing.lists), "counts", not_ready)
    found = await scrape(gateway)
    assert found.labels("pyoco_runs_total", "status") == set()
    assert found.value("pyoco_workers_alive_total") == 0


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


# How runs are counted, without a broker


def change_of(job: Job, revision: int, **fields: Any) -> RunChange:
    snapshot = pending_snapshot(job)
    for name, value in fields.items():
        setattr(snapshot, name, value)
    data = encode(snapshot)
    return RunChange(job.run_id, revision, data, summary=summary_of(data))


def told_by(timings: RunTimings) -> Scrape:
    page = MetricPage()
    timings.report_to(page)
    return Scrape(page.text().decode())


def test_a_run_is_counted_once() -> None:
    timings = RunTimings()
    job = new_job(flow_name="etl", tag="default")
    began = job.submitted_at + 2
    running = {"status": RunStatus.RUNNING, "start_time": began, "attempt": 1}
    ended = {"status": RunStatus.COMPLETED, "start_time": began, "end_time": began + 7, "attempt": 3}
    timings.take([change_of(job, 1)])
    timings.take([change_of(job, 2, **running), change_of(job, 3, **running)])
    waiting = told_by(timings)
    assert waiting.value("pyoco_run_schedule_to_start_seconds_sum", flow="etl") == pytest.approx(2)
    assert waiting.value("pyoco_run_duration_seconds_count", flow="etl") is None
    timings.take([change_of(job, 4, **ended)])
    timings.take([RunChange(job.run_id, 5, None)])
    found = told_by(timings)
    assert found.value("pyoco_run_schedule_to_start_seconds_count", flow="etl") == 1
    assert found.value("pyoco_run_duration_seconds_sum", flow="etl") == pytest.approx(7)
    assert found.value("pyoco_runs_ended_total", flow="etl", status="COMPLETED") == 1
    assert found.value("pyoco_redeliveries_total") == 2


def test_a_run_that_is_only_seen_ended_is_counted_whole() -> None:
    timings = RunTimings()
    job = new_job(flow_name="etl", tag="default")
    ended = {"status": RunStatus.FAILED, "start_time": job.submitted_at - 1, "end_time": job.submitted_at}
    timings.take([change_of(job, 9, **ended)])
    found = told_by(timings)
    # The worker's clock is behind: no wait is shorter than none.
    assert found.value("pyoco_run_schedule_to_start_seconds_sum", flow="etl") == 0
    assert found.value("pyoco_run_duration_seconds_sum", flow="etl") == pytest.approx(1)


def test_a_run_that_never_began_has_ended_but_took_no_time() -> None:
    timings = RunTimings()
    job = new_job(flow_name="etl", tag="default")
    timings.take([change_of(job, 1, status=RunStatus.CANCELLED, end_time=job.submitted_at + 1)])
    found = told_by(timings)
    assert found.value("pyoco_runs_ended_total", flow="etl", status="CANCELLED") == 1
    assert found.value("pyoco_run_duration_seconds_count", flow="etl") is None


def test_the_number_of_flow_labels_is_bounded() -> None:
    timings = RunTimings()
    for number in range(MAX_FLOWS + 20):
        job = new_job(flow_name=f"flow-{number}", tag="default")
        began = job.submitted_at
        timings.take([change_of(job, 1, status=RunStatus.COMPLETED, start_time=began, end_time=began + 1)])
    found = told_by(timings)
    assert len(found.labels("pyoco_run_duration_seconds_count", "flow")) == MAX_FLOWS + 1
    assert found.value("pyoco_run_duration_seconds_count", flow=OTHER_FLOWS) == 20
    assert not timings._started


def test_a_value_counts_below_its_bound_and_above_it() -> None:
    [metric] = [each for each in METRICS if each.name == "pyoco_http_request_seconds"]
    assert metric.kind is Kind.HISTOGRAM
    values = Distribution(metric.name)
    for value in (0.0, 0.001, 0.0011, 99.0):
        values.add(value)
    buckets = dict(values.buckets())
    assert (buckets["0.001"], buckets["0.0025"], buckets["2.5"], buckets["+Inf"]) == (2, 3, 3, 4)
    assert values.total == pytest.approx(99.0021)
