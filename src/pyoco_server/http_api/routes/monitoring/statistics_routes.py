"""Statistics of ended runs. Requests within a second share one response."""

import time
from collections.abc import Sequence
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api import statistics_types as types
from pyoco_server.api.endpoints.system_endpoints import STATISTICS
from pyoco_server.api.flow_types import FlowQuantiles, FlowSparkline
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.principal import caller_of
from pyoco_server.http_api.requests.query import RequestQueryReader, choice, tag_value, text_value
from pyoco_server.http_api.routing import handles
from pyoco_server.records.workers.worker_models import WorkerRecord
from pyoco_server.runs.index.statistics.flow_statistics import Quantiles
from pyoco_server.runs.index.statistics.period_statistics import PERIODS, Figures, NamedComparison

MOST_NAMES: Final = 100


@handles(STATISTICS)
async def get_statistics(request: Request) -> Response:
    gateway = gateway_of(request)
    reader = RequestQueryReader(request, types.StatisticsQuery)
    period = reader.one("period", choice(*PERIODS), str(types.StatisticsQuery().period))
    flow = reader.one("flow", text_value, None)
    tag = reader.one("tag", tag_value, None)
    reader.check()
    tenant = caller_of(request).confined_to

    async def read() -> bytes:
        return msgspec.json.encode(await _read(gateway, period, tenant, flow, tag))

    body = await gateway.statistics.get((tenant, period, flow, tag), read)
    return Response(body, media_type="application/json")


async def _read(
    gateway: Gateway, period: str, tenant: str | None, flow: str | None, tag: str | None
) -> types.Statistics:
    now = time.time()
    lists = gateway.listing.lists
    found = await lists.period_statistics(period, tenant, flow=flow, tag=tag, most=MOST_NAMES)
    living = [record for record in await gateway.workers.all() if gateway.state_of(record).alive]
    return types.Statistics(
        period=msgspec.convert(period, types.Period),
        at=now,
        since=found.since,
        previous_since=found.since - PERIODS[period].length_sec,
        bucket_sec=found.bucket_sec,
        current=_figures(found.total.current),
        previous=_figures(found.total.previous),
        buckets=list(map(_figures, found.current)),
        previous_buckets=list(map(_figures, found.previous)),
        flows=[
            types.FlowComparison(
                flow_name=each.name,
                current=_figures(each.current),
                previous=_figures(each.previous),
                sparkline=_sparkline(each),
            )
            for each in found.flows
        ],
        flow_count=found.flow_count,
        tags=[
            types.TagComparison(
                tag=each.name,
                current=_figures(each.current),
                previous=_figures(each.previous),
                sparkline=_sparkline(each),
                slots=_slots(living, each.name),
            )
            for each in found.tags
        ],
        tag_count=found.tag_count,
        slots=_slots(living, tag),
    )


def _figures(found: Figures) -> types.RunFigures:
    return types.RunFigures(
        completed=found.completed,
        failed=found.failed,
        cancelled=found.cancelled,
        per_hour=round(found.per_hour, 3),
        success_rate=found.success_rate,
        duration_ms=_quantiles(found.duration_ms),
        queue_ms=_quantiles(found.queue_ms),
    )


def _quantiles(found: Quantiles) -> FlowQuantiles:
    return FlowQuantiles(p50=found.p50, p95=found.p95)


def _sparkline(found: NamedComparison) -> FlowSparkline:
    return FlowSparkline(completed=found.completed, failed=found.failed, cancelled=found.cancelled)


def _slots(living: Sequence[WorkerRecord], tag: str | None) -> types.SlotCounts:
    """Of the workers that serve the tag, or of all."""
    serving = [record for record in living if tag is None or tag in record.tags]
    return types.SlotCounts(
        workers=len(serving),
        slots=sum(record.slots for record in serving),
        slots_busy=sum(record.slots_busy for record in serving),
    )
