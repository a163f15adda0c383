"""The overview of runs, queues and workers. Requests within a second share one response."""

import time
from collections import Counter
from typing import Final

import msgspec
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api import overview_types
from pyoco_server.api.endpoints.system_endpoints import OVERVIEW
from pyoco_server.api.flow_types import FlowSparkline
from pyoco_server.broker.queue.queue_depths import QueueDepth, QueueDepths
from pyoco_server.errors import IndexNotReady, NatsUnavailable
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.principal import caller_of
from pyoco_server.http_api.requests.query import RequestQueryReader, choice
from pyoco_server.http_api.routing import handles
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.workers.worker_models import WorkerRecord, WorkerState
from pyoco_server.runs.explain.explain_facts import TimingSettings
from pyoco_server.runs.index.statistics.activity import Activity, FlowActivity, HeldRuns, Span

# How long a window is, and each of its intervals.
WINDOWS: Final[dict[str, tuple[int, int]]] = {
    "1h": (3600, 60),
    "24h": (86_400, 1800),
    "7d": (604_800, 14_400),
}
MOST_QUEUES: Final = 20
MOST_FLOWS: Final = 10
MOST_UNREADABLE: Final = 10
MOST_LOST: Final = 100
MOST_ALERTS: Final = 10


@handles(OVERVIEW)
async def get_overview(request: Request) -> Response:
    gateway = gateway_of(request)
    reader = RequestQueryReader(request, overview_types.OverviewQuery)
    window = reader.one("window", choice(*WINDOWS), str(overview_types.OverviewQuery().window))
    reader.check()
    tenant = caller_of(request).confined_to

    async def read() -> bytes:
        return msgspec.json.encode(await _read(gateway, tenant, window))

    body = await gateway.overviews.get((tenant, window), read)
    return Response(body, media_type="application/json")


async def _read(gateway: Gateway, tenant: str | None, window: str) -> overview_types.Overview:
    now = time.time()
    span = Span.until(now, *WINDOWS[window])
    activity = await gateway.listing.lists.activity(tenant, span, flows=MOST_FLOWS)
    workers = await gateway.workers.all()
    # A tenant sees no tags that only other tenants use; those of workers are visible to everybody.
    served = {tag for worker in workers for tag in worker.tags}
    among = None if tenant is None else activity.by_tag.keys() | served
    depths = await QueueDepths(gateway.connection).read(MOST_QUEUES, among)
    named = {depth.tag for depth in depths}
    # Runs of tags that have neither jobs nor had a worker are counted too.
    depths += [QueueDepth(tag) for tag in sorted(_with_open_runs(activity) - named)][
        : MOST_QUEUES - len(named)
    ]
    living = [record for record in workers if gateway.state_of(record).alive]
    return overview_types.Overview(
        at=now,
        window=msgspec.convert(window, overview_types.Window),
        since=span.after,
        stretch_sec=span.bucket_sec,
        statuses={status: activity.statuses[status] for status in RunStatus},
        ended=[
            overview_types.EndedRuns(at=start, **_by_status(counts))
            for start, counts in zip(span.starts, activity.ended, strict=True)
        ],
        failing=[_failing(flow, len(span.starts)) for flow in activity.failing],
        queues=[_queue(depth, activity, living, now) for depth in depths],
        lost_runs=_lost_runs(gateway, workers, activity.held, now),
        workers=_worker_counts(gateway, workers, living),
        firing_alerts=await _firing_alerts(gateway, tenant),
        unreadable=_unreadable(gateway) if tenant is None else UNSET,
    )


def _with_open_runs(activity: Activity) -> set[str]:
    statuses = (RunStatus.PENDING, RunStatus.RUNNING)
    return {tag for tag, counts in activity.by_tag.items() if any(counts[status] for status in statuses)}


def _by_status(counts: Counter[str]) -> dict[str, int]:
    statuses = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)
    return {status.lower(): counts[status] for status in statuses}


def _per_bucket(flow: FlowActivity, status: RunStatus, buckets: int) -> list[int]:
    return [flow.by_bucket[bucket, status] for bucket in range(buckets)]


def _failing(flow: FlowActivity, buckets: int) -> overview_types.FailingFlow:
    assert flow.last_failed is not None, "it has failed"
    return overview_types.FailingFlow(
        flow_name=flow.flow_name,
        **_by_status(flow.ended),
        last_run_id=flow.last_failed.run_id,
        last_failed_at=flow.last_failed.updated_at,
        last_error=flow.last_failed.error,
        sparkline=FlowSparkline(
            completed=_per_bucket(flow, RunStatus.COMPLETED, buckets),
            failed=_per_bucket(flow, RunStatus.FAILED, buckets),
            cancelled=_per_bucket(flow, RunStatus.CANCELLED, buckets),
        ),
    )


def _queue(
    depth: QueueDepth, activity: Activity, living: list[WorkerRecord], now: float
) -> overview_types.QueueView:
    runs, since = activity.by_tag[depth.tag], activity.queued_since.get(depth.tag)
    serving = [record for record in living if depth.tag in record.tags]
    held = sum(record.paused or record.draining for record in serving)
    return overview_types.QueueView(
        tag=depth.tag,
        pending=runs[RunStatus.PENDING],
        running=runs[RunStatus.RUNNING],
        # Clocks of machines differ.
        oldest_pending_sec=None if since is None else max(0.0, now - since),
        waiting=depth.waiting,
        in_work=depth.in_work,
        oldest_sec=depth.oldest_sec,
        workers=len(serving) - held,
        workers_held=held,
    )


def _lost_runs(
    gateway: Gateway, workers: list[WorkerRecord], held: list[HeldRuns], now: float
) -> list[overview_types.LostRuns]:
    records = {record.worker_id: record for record in workers}
    timing = TimingSettings.of(gateway.config)

    def is_lost(runs: HeldRuns) -> bool:
        """As `explain` decides it: a worker that is only slow to report itself still has its runs."""
        record = records.get(runs.worker_id)
        if record is not None and gateway.state_of(record).alive:
            return False
        is_known_gone = record is not None and gateway.is_lost(record)
        return is_known_gone or timing.is_late(now - runs.last_write_at)

    lost = sorted(filter(is_lost, held), key=lambda runs: (-runs.runs, runs.tag, runs.worker_id))
    return [
        overview_types.LostRuns(
            worker_id=runs.worker_id,
            tag=runs.tag,
            runs=runs.runs,
            last_seen_at=records[runs.worker_id].last_seen_at if runs.worker_id in records else None,
        )
        for runs in lost[:MOST_LOST]
    ]


async def _firing_alerts(gateway: Gateway, tenant: str | None) -> overview_types.FiringAlerts | None:
    """Without the muted ones: whoever muted an alert knows of it."""
    directory, now = gateway.alerts.directory, gateway.clock.now()
    try:
        await directory.caught_up()
    except (NatsUnavailable, IndexNotReady):
        # The rest of the overview does not depend on them.
        return None
    alerts = directory.alerts(tenant)
    firing = [each.alert_id for each in alerts if each.current is not None and not each.is_muted(now)]
    return overview_types.FiringAlerts(total=len(firing), first=firing[:MOST_ALERTS])


def _unreadable(gateway: Gateway) -> overview_types.UnreadableList:
    known = gateway.connection.unreadable
    return overview_types.UnreadableList(
        total=sum(known.counts().values()),
        newest=[
            overview_types.UnreadableView(
                kind=entry.kind,
                key=entry.key,
                revision=entry.revision,
                problem=entry.problem,
                found_at=entry.found_at,
            )
            for entry in known.newest(MOST_UNREADABLE)
        ],
    )


def _worker_counts(
    gateway: Gateway, workers: list[WorkerRecord], living: list[WorkerRecord]
) -> overview_types.WorkerCounts:
    silent = [record for record in workers if gateway.state_of(record) is WorkerState.DISCONNECTED]
    return overview_types.WorkerCounts(
        alive=len(living),
        paused=sum(record.paused for record in living),
        draining=sum(record.draining for record in living),
        disconnected=sum(not record.hidden for record in silent),
        slots=sum(record.slots for record in living),
        slots_busy=sum(record.slots_busy for record in living),
    )
