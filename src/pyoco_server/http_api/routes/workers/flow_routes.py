"""Flows: list those that workers have or that have runs, read one, and the graph of a run."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, cast

import msgspec
from msgspec import UNSET, structs
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api import flow_types as flows
from pyoco_server.api.endpoints.workers.flow_endpoints import GET_FLOW, GET_RUN_GRAPH, LIST_FLOWS
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.catalogue.live_flows import FlowGroup, LiveFlows
from pyoco_server.errors import FlowNotFound, shortened
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.principal import caller_of
from pyoco_server.http_api.requests.query import (
    QueryReader,
    RequestQueryReader,
    cursor_value,
    tag_value,
    text_value,
    whole_number,
)
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.routes.runs.run_routes import owned_run
from pyoco_server.http_api.routes.runs.submit_routes import checked_flow
from pyoco_server.http_api.routing import handles
from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus
from pyoco_server.records.workers.flow_models import FlowDescription
from pyoco_server.runs.flow_yaml import did_you_mean
from pyoco_server.runs.flow_yaml.flow_order import planned_tasks
from pyoco_server.runs.index.pagination import SortKey
from pyoco_server.runs.index.run_summary import RunItem
from pyoco_server.runs.index.statistics.flow_statistics import FlowHistory, FlowStatistics


@handles(LIST_FLOWS)
async def list_flows(request: Request) -> Response:
    gateway = gateway_of(request)
    cursors = await gateway.cursors.get() if "cursor" in request.query_params else None
    reader = QueryReader(request, flows.FlowListQuery)
    tag = reader.one("tag", tag_value, None)
    search = reader.one("search", text_value, None)
    limit = reader.one("limit", whole_number(1, flows.FLOW_LIMIT_MAX), flows.FLOW_LIMIT_DEFAULT)
    after = reader.one("cursor", cursor_value(cursors, tag, search), None)
    reader.check()

    live = await _live_flows(gateway)
    ended = await _statistics(gateway, caller_of(request).confined_to, tag)
    # Flows that no live worker has any more, but that have runs, are listed too.
    names = sorted(ended.keys() | {*live.names}) if ended else live.names
    if after is not None:
        names = names[bisect_right(names, after.name) :]
    page = list(islice(_matching(live, names, tag, search, ended), limit + 1))
    next_cursor = None
    if len(page) > limit:
        page.pop()
        last = SortKey(page[-1].name, 0.0, 0)
        next_cursor = (await gateway.cursors.get()).write(last, tag, search)
    return json_response(flows.FlowPage(flows=page, next_cursor=next_cursor))


@handles(GET_FLOW)
async def get_flow(request: Request, flow_name: str) -> Response:
    gateway = gateway_of(request)
    reader = RequestQueryReader(request, flows.FlowQuery)
    tag = reader.one("tag", tag_value, None)
    reader.check()
    live, lists = await _live_flows(gateway), gateway.listing.lists
    having = live.having(flow_name, tag)
    history = None
    if lists.ready:
        history = await lists.history_of_flow(flow_name, caller_of(request).confined_to, tag=tag)
    if not having and history is None:
        hint = did_you_mean(flow_name, live.names)
        raise FlowNotFound(f"no live worker has the flow {shortened(flow_name)}, and it has no runs{hint}")
    return json_response(_view(gateway, flow_name, having, history))


@handles(GET_RUN_GRAPH)
async def get_run_graph(request: Request, run_id: str) -> Response:
    gateway, run = gateway_of(request), await owned_run(request, run_id)
    if run.tasks:
        return json_response(flows.RunGraph(run_id=run_id, source="run", tasks=list(_tasks_of_run(run))))
    if run.workflow_yaml_sha256 is not None:
        # It brings a flow of its own, whatever its name.
        tasks = await _tasks_of_yaml(gateway, run, run.workflow_yaml_sha256)
        return json_response(
            flows.RunGraph(run_id=run_id, source="flow_yaml" if tasks else None, tasks=tasks)
        )
    live = await _live_flows(gateway)
    expected = _tasks(_shown(run.flow_name, live.having(run.flow_name, run.tag)))
    other = _tasks(_shown(run.flow_name, live.having(run.flow_name, None)))
    source: flows.GraphSource | None = "tag" if expected else "other_tags" if other else None
    return json_response(flows.RunGraph(run_id=run_id, source=source, tasks=expected or other))


async def _tasks_of_yaml(gateway: Gateway, run: RunSnapshot, digest: str) -> list[flows.FlowTask]:
    """None if the file is not stored any more."""
    document = await Journal(gateway.connection).document(run.tag, run.run_id, digest)
    if document is None:
        return []
    planned = planned_tasks(await checked_flow(document.encode()))
    return [flows.FlowTask(name=name, description="", after=after) for name, after in planned.items()]


def _tasks_of_run(run: RunSnapshot) -> Iterator[flows.FlowTask]:
    records = run.task_records or {}
    for name in run.tasks:
        record = msgspec.json.decode(records[name]) if name in records else {}
        yield flows.FlowTask(name=name, description="", after=record.get("after", []))


async def _live_flows(gateway: Gateway) -> LiveFlows:
    directory = gateway.flows.directory
    if not directory.ready:
        await directory.refresh()
    elif directory.is_outdated:
        await directory.catch_up()
    return directory.current


async def _statistics(
    gateway: Gateway, tenant: str | None, tag: str | None
) -> Mapping[str, FlowStatistics] | None:
    """Of the last day; None while the index of runs is being filled."""
    lists = gateway.listing.lists
    if not lists.ready:
        return None
    return await gateway.flows.statistics.get(
        (tenant, tag), lambda: lists.statistics_by_flow(tenant, tag=tag)
    )


def _matching(
    live: LiveFlows,
    names: Iterable[str],
    tag: str | None,
    search: str | None,
    ended: Mapping[str, FlowStatistics] | None,
) -> Iterator[flows.FlowItem]:
    search_text = None if search is None else search.casefold()
    for name in names:
        item = _item(live, name, tag)
        found = ended.get(name) if ended else None
        if not item.workers and found is None:
            # Of another tag.
            continue
        if (
            search_text is None
            or search_text in name.casefold()
            or search_text in item.description.casefold()
        ):
            yield item if found is None else structs.replace(item, statistics=_windows([found]))


def _item(live: LiveFlows, name: str, tag: str | None) -> flows.FlowItem:
    """Without statistics; made once, since the same workers have it until something changes."""
    item: flows.FlowItem | None = live.shown.get((name, tag))
    if item is not None:
        return item
    having = live.having(name, tag)
    shown, versions = _shown(name, having), _versions(having)
    item = flows.FlowItem(
        name=name,
        description=shown.description,
        tags=_tags(having),
        workers=sum(len(group.workers) for group in having),
        versions=versions,
        versions_differ=len(versions) > 1,
        parameters=_parameters(shown),
        problem=shown.problem,
    )
    if having:
        live.shown[name, tag] = item
    return item


def _shown(name: str, having: list[FlowGroup]) -> FlowDescription:
    """As most workers have it; without a worker, only its name is known."""
    return having[0].flows[name] if having else FlowDescription(name=name)


def _view(
    gateway: Gateway, name: str, having: list[FlowGroup], history: FlowHistory | None
) -> flows.FlowView:
    shown, versions = _shown(name, having), _versions(having)
    edges = [flows.FlowEdge(source=each, target=task.name) for task in shown.tasks for each in task.after]
    return flows.FlowView(
        name=name,
        description=shown.description,
        tags=_tags(having),
        versions=versions,
        versions_differ=len(versions) > 1,
        parameters=_parameters(shown),
        problem=shown.problem,
        file=shown.file or None,
        tasks=_tasks(shown),
        graph=flows.FlowGraph(nodes=[task.name for task in shown.tasks], edges=edges),
        workers=list(_workers(gateway, having)),
        statistics=UNSET if history is None else _windows(history.windows.values()),
        last_failures=[] if history is None else list(map(_failure, history.last_failures)),
    )


def _tasks(shown: FlowDescription) -> list[flows.FlowTask]:
    return [
        flows.FlowTask(name=task.name, description=task.description, after=task.after) for task in shown.tasks
    ]


def _windows(statistics: Iterable[FlowStatistics]) -> dict[flows.FlowWindow, flows.FlowStatistics]:
    return {cast(flows.FlowWindow, each.window): _window(each) for each in statistics}


def _window(found: FlowStatistics) -> flows.FlowStatistics:
    return flows.FlowStatistics(
        since=found.since,
        bucket_sec=found.bucket_sec,
        statuses=cast(dict[RunStatus, int], found.statuses),
        success_rate=found.success_rate,
        duration_ms=flows.FlowQuantiles(p50=found.duration_ms.p50, p95=found.duration_ms.p95),
        queue_ms=flows.FlowQuantiles(p50=found.queue_ms.p50, p95=found.queue_ms.p95),
        sparkline=flows.FlowSparkline(
            completed=found.completed, failed=found.failed, cancelled=found.cancelled
        ),
    )


def _failure(run: RunItem) -> flows.FlowFailure:
    return flows.FlowFailure(run_id=run.run_id, ended_at=run.updated_at, error=run.error)


def _workers(gateway: Gateway, having: list[FlowGroup]) -> Iterator[flows.FlowWorker]:
    for group in having:
        for worker_id in group.workers:
            worker = gateway.flows.directory.worker(worker_id)
            if worker is not None:
                yield flows.FlowWorker(
                    worker_id=worker_id,
                    state=gateway.state_of(worker),
                    tags=worker.tags,
                    version=group.version,
                )


def _versions(having: list[FlowGroup]) -> list[str]:
    """Those of most workers first."""
    return list(dict.fromkeys(group.version for group in having if group.version is not None))


def _tags(having: list[FlowGroup]) -> list[str]:
    return sorted({tag for group in having for tag in group.tags})


def _parameters(flow: FlowDescription) -> Any:
    """As the worker has encoded it."""
    return cast(Any, flow.parameters)
