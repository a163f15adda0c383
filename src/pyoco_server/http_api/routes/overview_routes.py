"""The overview of runs, queues and workers. Requests within a second share one response."""

import time
from collections import Counter
from typing import Final

import msgspec
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api import operation_types as ops
from pyoco_server.api.endpoints.system_endpoints import OVERVIEW
from pyoco_server.api.flow_types import FlowSparkline
from pyoco_server.broker.queue.queue_depths import QueueDepth, QueueDepths
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.principal import caller_of
from pyoco_server.http_api.requests.query import QueryReader, choice
from pyoco_server.http_api.routing import handles
from pyoco_server.records.models import RunStatus, WorkerRecord, WorkerState
from pyoco_server.runs.index.activity import Activity, FlowActivity, Span

# How long a window is, and each of its intervals.
WINDOWS: Final[dict[str, tuple[int, int]]] = {
    "1h": (3600, 60),
    "24h": (86_400, 1800),
    "7d": (604_800, 14_400),
}
MOST_QUEUES: Final = 20
MOST_FLOWS: Final = 10
MOST_UNREADABLE: Final = 10


@handles(OVERVIEW)
async def get_overview(request: Request) -> Response:
    gateway = gateway_of(request)
    reader = QueryReader(request, ops.OverviewQuery)
    window = reader.one("window", choice(*WINDOWS), str(ops.OverviewQuery().window))
    reader.check()
    tenant = caller_of(request).confined_to

    async def read() -> bytes:
        return msgspec.json.encode(await _read(gateway, tenant, window))

    body = await gateway.overviews.get((tenant, window), read)
    return Response(body, media_type="application/json")


async def _read(gateway: Gateway, tenant: str | None, window: str) -> ops.Overview:
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
    return ops.Overview(
        at=now,
        window=msgspec.convert(window, ops.Window),
        since=span.after,
        stretch_sec=span.bucket_sec,
        statuses={status: activity.statuses[status] for status in RunStatus},
        ended=[
            ops.EndedRuns(at=start, **_by_status(counts))
            for start, counts in zip(span.starts, activity.ended, strict=True)
        ],
        failing=[_failing(flow, len(span.starts)) for flow in activity.failing],
        queues=[_queue(depth, activity.by_tag[depth.tag], living) for depth in depths],
        workers=_worker_counts(gateway, workers, living),
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


def _failing(flow: FlowActivity, buckets: int) -> ops.FailingFlow:
    assert flow.last_failed is not None, "it has failed"
    return ops.FailingFlow(
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


def _queue(depth: QueueDepth, runs: Counter[str], living: list[WorkerRecord]) -> ops.QueueView:
    serving = [record for record in living if depth.tag in record.tags]
    held = sum(record.paused or record.draining for record in serving)
    return ops.QueueView(
        tag=depth.tag,
        pending=runs[RunStatus.PENDING],
        running=runs[RunStatus.RUNNING],
        waiting=depth.waiting,
        in_work=depth.in_work,
        oldest_sec=depth.oldest_sec,
        workers=len(serving) - held,
        workers_held=held,
    )


def _unreadable(gateway: Gateway) -> ops.UnreadableList:
    known = gateway.connection.unreadable
    return ops.UnreadableList(
        total=sum(known.counts().values()),
        newest=[
            ops.UnreadableView(
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
) -> ops.WorkerCounts:
    silent = [record for record in workers if gateway.state_of(record) is WorkerState.DISCONNECTED]
    return ops.WorkerCounts(
        alive=len(living),
        paused=sum(record.paused for record in living),
        draining=sum(record.draining for record in living),
        disconnected=sum(not record.hidden for record in silent),
        slots=sum(record.slots for record in living),
        slots_busy=sum(record.slots_busy for record in living),
    )
