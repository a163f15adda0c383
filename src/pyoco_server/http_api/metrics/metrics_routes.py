"""`GET /metrics`: how the system is, for Prometheus. What it costs does not depend on the number of runs.

A key that is held to a tenant is told of that tenant's runs, and of the workers and queues that all share;
what is counted of everybody's requests and dead letters is for the operator.
"""

import asyncio
import platform
import time
from collections import Counter
from importlib.metadata import version

from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api.endpoints import METRICS
from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.broker.queue.queue_depths import QueueDepths
from pyoco_server.errors import IndexNotReady
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.metrics.metric_page import MEDIA_TYPE, MetricPage
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.routing import handles
from pyoco_server.records.models import RunStatus, WorkerRecord, WorkerState
from pyoco_server.telemetry.fast_paths import fast_paths
from pyoco_server.version import __version__

# Anybody may submit runs with any tag: only the longest queues are told one by one.
MOST_TAGS = 100

_STARTED_AT = time.time()
_BUILD = (__version__, version("pyoco"), platform.python_version())


@handles(METRICS)
async def get_metrics(request: Request) -> Response:
    gateway = gateway_of(request)
    if not gateway.connection.ready:
        raise gateway.connection.unavailable()
    page = MetricPage()
    tenant = caller_of(request).confined_to
    if tenant is None:
        await _tell_all(gateway, page)
    else:
        await _tell_tenant(gateway, page, tenant)
    # Some milliseconds for a long page, during which others want to be served.
    return Response(await asyncio.to_thread(page.text), media_type=MEDIA_TYPE)


async def _tell_all(gateway: Gateway, page: MetricPage) -> None:
    began = time.perf_counter()
    workers = await gateway.workers.all()
    await _tell_queue(gateway, page)
    _tell_workers(gateway, page, workers)
    await _tell_dead_letters(gateway, page)
    page.put("pyoco_nats_read_seconds", time.perf_counter() - began)
    await _tell_runs(gateway, page)
    await _tell_waits(gateway, page, None)
    gateway.listing.timings.tell(page)
    gateway.requests.tell(page)
    _tell_gateway(gateway, page)


async def _tell_tenant(gateway: Gateway, page: MetricPage, tenant: str) -> None:
    workers = await gateway.workers.all()
    own = await _tell_runs(gateway, page, tenant)
    # The names of others' tags are their business; those of the workers are in the list of workers anyway.
    await _tell_queue(gateway, page, own | {tag for worker in workers for tag in worker.tags})
    _tell_workers(gateway, page, workers)
    await _tell_waits(gateway, page, tenant)
    gateway.listing.timings.tell(page, tenant)


async def _tell_runs(gateway: Gateway, page: MetricPage, tenant: str | None = None) -> set[str]:
    """The tags of these runs."""
    page.put("pyoco_index_ready", gateway.listing.lists.ready)
    try:
        counts = await gateway.listing.lists.counts(tenant)
    except IndexNotReady:
        # No number is better than one that is too small.
        return set()
    by_status: Counter[str] = Counter({str(status): 0 for status in RunStatus})
    for (_, _, status), count in counts.items():
        by_status[status] += count
    for status, count in by_status.items():
        page.put("pyoco_runs_total", count, status)
    return {tag for _, tag, _ in counts}


async def _tell_waits(gateway: Gateway, page: MetricPage, tenant: str | None) -> None:
    try:
        waiting = await gateway.waits.lists.open_of(tenant)
    except IndexNotReady:
        # No number is better than a wrong one; whether the index is ready is a metric of its own.
        pass
    else:
        page.put("pyoco_waits_open", waiting.count)
        age = 0.0 if waiting.oldest_at is None else max(0.0, time.time() - waiting.oldest_at)
        page.put("pyoco_waits_oldest_open_seconds", age)
    # Behind the question, which has waited until all was read.
    for state, count in gateway.waits.decided.of(tenant).items():
        page.put("pyoco_waits_decided_total", count, state)


async def _tell_queue(gateway: Gateway, page: MetricPage, among: set[str] | None = None) -> None:
    for depth in await QueueDepths(gateway.connection).read(MOST_TAGS, among):
        page.put("pyoco_queue_waiting_jobs", depth.waiting, depth.tag)
        page.put("pyoco_queue_in_work_jobs", depth.in_work, depth.tag)
        page.put("pyoco_queue_redelivered_jobs", depth.redelivered, depth.tag)
        page.put("pyoco_queue_oldest_waiting_seconds", depth.oldest_sec, depth.tag)


def _tell_workers(gateway: Gateway, page: MetricPage, workers: list[WorkerRecord]) -> None:
    timeout_sec = gateway.config.worker_disconnect_timeout_sec
    seen = [(record.observed_state(disconnect_timeout_sec=timeout_sec), record) for record in workers]
    states = Counter(state for state, _ in seen)
    alive = [record for state, record in seen if state.alive]
    for state in WorkerState:
        page.put("pyoco_workers", states[state], state)
    page.put("pyoco_workers_alive_total", len(alive))
    page.put("pyoco_workers_paused", sum(record.paused for record in alive))
    page.put("pyoco_worker_slots", sum(record.slots for record in alive))
    page.put("pyoco_worker_slots_busy", sum(record.slots_busy for record in alive))


async def _tell_dead_letters(gateway: Gateway, page: MetricPage) -> None:
    state = await stream_state(gateway.connection, gateway.config.dlq_stream)
    page.put("pyoco_dlq_messages_total", state.messages)
    page.put("pyoco_dlq_bytes", state.bytes)


def _tell_gateway(gateway: Gateway, page: MetricPage) -> None:
    """What is known here without asking anybody."""
    for action, count in gateway.sweeper.actions.items():
        page.put("pyoco_sweep_actions_total", count, action)
    page.put("pyoco_sweep_rounds_total", gateway.sweeper.rounds)
    page.put("pyoco_sweep_leader", gateway.sweeper.lease.held)
    for outcome, count in gateway.notifications.outcomes.items():
        page.put("pyoco_notifications_total", count, outcome)
    page.put("pyoco_nats_connected", gateway.connection.ready)
    page.put("pyoco_nats_reconnects_total", max(0, gateway.connection.times_connected - 1))
    page.put("pyoco_watchers", gateway.listing.changes.followers + gateway.waits.inbox.followers)
    page.put("pyoco_build_info", 1, *_BUILD)
    for dependency, in_use in fast_paths().items():
        page.put("pyoco_dependency_fast_path", in_use, dependency)
    page.put("pyoco_start_time_seconds", _STARTED_AT)
