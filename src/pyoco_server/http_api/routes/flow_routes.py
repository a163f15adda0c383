"""Flows: list those that workers have or that have runs, and read one."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api import flow_types as flows
from pyoco_server.api.endpoints.flow_endpoints import GET_FLOW, LIST_FLOWS
from pyoco_server.catalogue.live_flows import LiveFlows, WorkerGroup
from pyoco_server.errors import FlowNotFound, shortened
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.requests.query import (
    QueryReader,
    cursor_value,
    tag_value,
    text_value,
    whole_number,
)
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.routing import handles
from pyoco_server.records.flow_models import FlowDescription
from pyoco_server.runs.flow_yaml import did_you_mean
from pyoco_server.runs.index.pagination import SortKey


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
    names = live.names
    if after is not None:
        names = names[bisect_right(names, after.name) :]
    chosen = _matching(live, names, tag, search)
    page = [found for found, _ in zip(chosen, range(limit + 1), strict=False)]
    next_cursor = None
    if len(page) > limit:
        page.pop()
        last = SortKey(page[-1].name, 0.0, 0)
        next_cursor = (await gateway.cursors.get()).write(last, tag, search)
    return json_response(flows.FlowPage(flows=page, next_cursor=next_cursor))


@handles(GET_FLOW)
async def get_flow(request: Request, flow_name: str) -> Response:
    gateway = gateway_of(request)
    reader = QueryReader(request, flows.FlowQuery)
    tag = reader.one("tag", tag_value, None)
    reader.check()
    live = await _live_flows(gateway)
    having = live.having(flow_name, tag)
    if not having:
        hint = did_you_mean(flow_name, live.names)
        raise FlowNotFound(f"no live worker has the flow {shortened(flow_name)}, and it has no runs{hint}")
    return json_response(_view(gateway, flow_name, having))


async def _live_flows(gateway: Gateway) -> LiveFlows:
    directory = gateway.flows.directory
    if not directory.ready:
        await directory.refresh()
    elif directory.is_outdated:
        await directory.catch_up()
    return directory.current


def _matching(
    live: LiveFlows, names: Iterable[str], tag: str | None, search: str | None
) -> Iterable[flows.FlowItem]:
    wanted = None if search is None else search.casefold()
    for name in names:
        having = live.having(name, tag)
        if having and (wanted is None or _matches(having[0].flows[name], wanted)):
            yield _item(name, having)


def _matches(flow: FlowDescription, search: str) -> bool:
    return search in flow.name.casefold() or search in flow.description.casefold()


def _item(name: str, having: list[WorkerGroup]) -> flows.FlowItem:
    shown, versions = having[0].flows[name], _versions(having)
    return flows.FlowItem(
        name=name,
        description=shown.description,
        tags=_tags(having),
        workers=sum(len(group.workers) for group in having),
        versions=versions,
        versions_differ=len(versions) > 1,
        parameters=_parameters(shown),
        problem=shown.problem,
    )


def _view(gateway: Gateway, name: str, having: list[WorkerGroup]) -> flows.FlowView:
    shown, versions = having[0].flows[name], _versions(having)
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
        tasks=[
            flows.FlowTask(name=task.name, description=task.description, after=task.after)
            for task in shown.tasks
        ],
        graph=flows.FlowGraph(nodes=[task.name for task in shown.tasks], edges=edges),
        workers=list(_workers(gateway, having)),
    )


def _workers(gateway: Gateway, having: list[WorkerGroup]) -> Iterable[flows.FlowWorker]:
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


def _versions(having: list[WorkerGroup]) -> list[str]:
    """Those of most workers first."""
    return list(dict.fromkeys(group.version for group in having if group.version is not None))


def _tags(having: list[WorkerGroup]) -> list[str]:
    return sorted({tag for group in having for tag in group.tags})


def _parameters(flow: FlowDescription) -> Any:
    """As the worker has encoded it."""
    return cast(Any, flow.parameters)
