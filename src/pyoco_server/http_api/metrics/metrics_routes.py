"""`GET /metrics`, for Prometheus. Its cost does not depend on the number of runs.

A tenant gets the metrics of its runs, waits, dead letters and agent requests, and of the shared workers and
queues; only the operator gets those of HTTP requests.
"""

import asyncio
import platform
import time
from collections import Counter
from importlib.metadata import version

from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.agent.request_file import RequestStatus
from pyoco_server.agent.requests.request_service import RequestService
from pyoco_server.api.endpoints.system_endpoints import METRICS
from pyoco_server.audit.audit_log import AuditLog
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.broker.queue.queue_depths import QueueDepths
from pyoco_server.errors import IndexNotReady
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.metrics.metric_page import MetricPage
from pyoco_server.http_api.middleware.principal import caller_of
from pyoco_server.http_api.routes.agent.request_routes import served_requests
from pyoco_server.http_api.routing import handles
from pyoco_server.http_api.services import RunReadModel, Schedules, Waits
from pyoco_server.http_api.trigger_services import WorkflowEventParts
from pyoco_server.records.monitoring.audit_entry_models import AuditOutcome
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.schedules.schedule_models import DecisionOutcome
from pyoco_server.records.triggers.hook_models import DeliveryStatus
from pyoco_server.records.triggers.workflow_event_models import RetryStatus
from pyoco_server.records.workers.worker_models import WorkerRecord, WorkerState
from pyoco_server.runs.lifecycle.tenancy import visible_to
from pyoco_server.telemetry.fast_paths import fast_paths
from pyoco_server.version import __version__

# Tags are unbounded: only the longest queues are listed.
MAX_TAGS = 100
# Of a run whose status this version does not know.
OTHER_STATUS = "OTHER"

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
        await _add_all(gateway, page)
    else:
        await _add_tenant(gateway, page, tenant)
    if (service := served_requests(request)) is not None:
        await _add_requests(service, page)
    # A long page takes some milliseconds.
    return Response(await asyncio.to_thread(page.text), media_type=METRICS.media_type)


async def _add_all(gateway: Gateway, page: MetricPage) -> None:
    began = time.perf_counter()
    workers = await gateway.workers.all()
    await _add_queue(gateway.connection, page)
    _add_workers(gateway, page, workers)
    await _add_dead_letters(gateway.connection, page)
    page.put("pyoco_nats_read_seconds", time.perf_counter() - began)
    await _add_runs(gateway.listing, page)
    await _add_waits(gateway.waits, page, None)
    await _add_schedules(gateway.schedules, page, None)
    for outcome in DecisionOutcome:
        count = gateway.schedules.runner.decision_counts[outcome]
        page.put("pyoco_schedule_decisions_total", count, outcome)
    await _add_workflow_events(gateway.workflow_events, page)
    gateway.listing.timings.report_to(page)
    gateway.request_counts.report_to(page)
    _add_gateway(gateway, page)


async def _add_tenant(gateway: Gateway, page: MetricPage, tenant: str) -> None:
    workers = await gateway.workers.all()
    own = await _add_runs(gateway.listing, page, tenant)
    # Not the tags of other tenants; those of workers are public.
    await _add_queue(gateway.connection, page, own | {tag for worker in workers for tag in worker.tags})
    _add_workers(gateway, page, workers)
    await _add_waits(gateway.waits, page, tenant)
    await _add_schedules(gateway.schedules, page, tenant)
    page.put("pyoco_dlq_messages_total", await gateway.letter_counts.of(tenant))
    gateway.listing.timings.report_to(page, tenant)


async def _add_runs(listing: RunReadModel, page: MetricPage, tenant: str | None = None) -> set[str]:
    """The tags of these runs."""
    page.put("pyoco_index_ready", listing.lists.ready)
    try:
        counts = await listing.lists.counts(tenant)
    except IndexNotReady:
        # No value rather than a wrong one.
        return set()
    by_status: Counter[str] = Counter({str(status): 0 for status in RunStatus})
    for (_, _, status), count in counts.items():
        # Names of newer versions are unbounded.
        by_status[status if status in by_status else OTHER_STATUS] += count
    for status, count in by_status.items():
        page.put("pyoco_runs_total", count, status)
    await _add_artifacts(listing, page, tenant)
    return {tag for _, tag, _ in counts}


async def _add_artifacts(listing: RunReadModel, page: MetricPage, tenant: str | None) -> None:
    found = await listing.lists.artifacts()
    counts = [each for owner, each in found.items() if visible_to(tenant, owner)]
    page.put("pyoco_artifacts", sum(each.count for each in counts))
    page.put("pyoco_artifacts_bytes", sum(each.bytes for each in counts))
    page.put("pyoco_artifacts_left_out", sum(each.left_out_count for each in counts))


async def _add_waits(waits: Waits, page: MetricPage, tenant: str | None) -> None:
    await _add_open_waits(waits, page, tenant)
    # After the query, which has caught up with the feed.
    for state, count in waits.decided.of(tenant).items():
        page.put("pyoco_waits_decided_total", count, state)


async def _add_open_waits(waits: Waits, page: MetricPage, tenant: str | None) -> None:
    try:
        waiting = await waits.lists.open_of(tenant)
    except IndexNotReady:
        # No value rather than a wrong one.
        return
    page.put("pyoco_waits_open", waiting.count)
    age = 0.0 if waiting.oldest_at is None else max(0.0, time.time() - waiting.oldest_at)
    page.put("pyoco_waits_oldest_open_seconds", age)


async def _add_schedules(schedules: Schedules, page: MetricPage, tenant: str | None) -> None:
    try:
        await schedules.directory.caught_up()
    except IndexNotReady:
        # No value rather than a wrong one.
        return
    states = Counter(row.paused for row in schedules.directory.rows(tenant))
    page.put("pyoco_schedules", states[False], "active")
    page.put("pyoco_schedules", states[True], "paused")


async def _add_requests(service: RequestService, page: MetricPage) -> None:
    try:
        states = await service.all()
    except IndexNotReady:
        # No value rather than a wrong one.
        return
    counts = Counter(state.status for state in states)
    for status in RequestStatus:
        page.put("pyoco_agent_requests", counts[status], status)
    queued = [at for state in states if state.record and (at := state.record.queued_at) is not None]
    age = max(0.0, time.time() - min(queued)) if queued else 0.0
    page.put("pyoco_agent_requests_oldest_queued_seconds", age)


async def _add_workflow_events(parts: WorkflowEventParts, page: MetricPage) -> None:
    for status, count in parts.service.outcomes.items():
        page.put("pyoco_workflow_events_total", count, status)
    for outcome, count in parts.notifications.outcomes.items():
        page.put("pyoco_chat_notifications_total", count, outcome)
    page.put("pyoco_workflow_event_receipts_removed_total", parts.receipts.removed_early)
    page.put("pyoco_workflow_event_audit_rows_lost_total", parts.audit.lost)
    try:
        await parts.retries.directory.caught_up()
    except IndexNotReady:
        # No value rather than a wrong one.
        return
    queue = parts.retries.counts(lambda _: True)
    for retry_status in RetryStatus:
        page.put("pyoco_workflow_event_retry_jobs", queue.by_status[retry_status], retry_status)


async def _add_queue(connection: Connection, page: MetricPage, among: set[str] | None = None) -> None:
    for depth in await QueueDepths(connection).read(MAX_TAGS, among):
        page.put("pyoco_queue_waiting_jobs", depth.waiting, depth.tag)
        page.put("pyoco_queue_in_work_jobs", depth.in_work, depth.tag)
        page.put("pyoco_queue_redelivered_jobs", depth.redelivered, depth.tag)
        page.put("pyoco_queue_oldest_waiting_seconds", depth.oldest_sec, depth.tag)


def _add_workers(gateway: Gateway, page: MetricPage, workers: list[WorkerRecord]) -> None:
    seen = [(gateway.state_of(record), record) for record in workers]
    states = Counter(state for state, _ in seen)
    alive = [record for state, record in seen if state.alive]
    for state in WorkerState:
        page.put("pyoco_workers", states[state], state)
    page.put("pyoco_workers_alive_total", len(alive))
    page.put("pyoco_workers_paused", sum(record.paused for record in alive))
    page.put("pyoco_worker_slots", sum(record.slots for record in alive))
    page.put("pyoco_worker_slots_busy", sum(record.slots_busy for record in alive))


async def _add_dead_letters(connection: Connection, page: MetricPage) -> None:
    state = await stream_state(connection, connection.config.dlq_stream)
    page.put("pyoco_dlq_messages_total", state.messages)
    page.put("pyoco_dlq_bytes", state.bytes)


def _add_alerts(gateway: Gateway, page: MetricPage) -> None:
    firing = [row.record.current is not None for row in gateway.alerts.directory.rows()]
    page.put("pyoco_alerts", sum(firing), "firing")
    page.put("pyoco_alerts", len(firing) - sum(firing), "ok")
    for outcome, count in gateway.alerts.deliverer.outcomes.items():
        page.put("pyoco_alert_messages_total", count, outcome)


def _add_audit(log: AuditLog, page: MetricPage) -> None:
    for outcome in AuditOutcome:
        page.put("pyoco_audit_entries_total", log.written[outcome], outcome)
    page.put("pyoco_audit_entries_lost_total", log.lost)
    page.put("pyoco_audit_refusals_skipped_total", log.skipped)


def _add_gateway(gateway: Gateway, page: MetricPage) -> None:
    """What needs no request to NATS."""
    for action, count in gateway.sweeper.actions.items():
        page.put("pyoco_sweep_actions_total", count, action)
    page.put("pyoco_unverified_runs_total", gateway.runs.submitter.signatures.refused)
    for state, count in gateway.takeover.counts.items():
        page.put("pyoco_runs_handed_over_total", count, state)
    _add_audit(gateway.audit.log, page)
    page.put("pyoco_sweep_rounds_total", gateway.sweeper.rounds)
    page.put("pyoco_sweep_leader", gateway.sweeper.lease.held)
    for outcome, count in gateway.notifications.outcomes.items():
        page.put("pyoco_notifications_total", count, outcome)
    _add_alerts(gateway, page)
    for topic_kind, count in gateway.signals.sent.items():
        page.put("pyoco_signals_total", count, topic_kind)
    for topic_kind, count in gateway.signals.matching.received.items():
        page.put("pyoco_signals_received_total", count, topic_kind)
    for status in DeliveryStatus:
        page.put("pyoco_hook_deliveries_total", gateway.hooks.receiver.counts[status], status)
    page.put("pyoco_hook_deliveries_not_kept_total", gateway.hooks.recorder.dropped)
    page.put("pyoco_hooks", len(gateway.hooks.directory))
    for kind, count in gateway.connection.unreadable.counts().items():
        page.put("pyoco_unreadable_records", count, kind)
    page.put("pyoco_nats_connected", gateway.connection.ready)
    page.put("pyoco_nats_reconnects_total", max(0, gateway.connection.times_connected - 1))
    page.put("pyoco_nats_writable", gateway.storage.problem is None)
    for space in gateway.storage.space:
        page.put("pyoco_nats_free_bytes", space.free_bytes, space.of)
        page.put("pyoco_nats_limit_bytes", space.limit_bytes, space.of)
    page.put("pyoco_watchers", gateway.listing.run_hub.followers + gateway.waits.inbox.followers)
    page.put("pyoco_build_info", 1, *_BUILD)
    for dependency, in_use in fast_paths().items():
        page.put("pyoco_dependency_fast_path", in_use, dependency)
    page.put("pyoco_start_time_seconds", _STARTED_AT)
