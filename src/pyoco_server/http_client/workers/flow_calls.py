"""Calls about flows: those that workers have or that have runs."""

from __future__ import annotations

from pyoco_server.http_client import client_endpoints as api
from pyoco_server.http_client.call_types import Pages, Request, call, given
from pyoco_server.http_client.response_types import FlowItem, FlowPage, FlowView, RunGraph


def list_flows(
    tag: str | None = None, search: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Request[FlowPage]:
    """A page of the flows that workers have or that have runs, in the order of their names.

    `search` is anywhere in the name or the description.
    """
    return call(api.LIST_FLOWS, given(tag=tag, search=search, limit=limit, cursor=cursor))


def iter_flows(tag: str | None = None, search: str | None = None, page_size: int = 200) -> Pages[FlowItem]:
    """Every flow that matches, page after page."""
    return Pages(page=lambda cursor: list_flows(tag, search, page_size, cursor), items="flows")


def get_flow(flow_name: str, tag: str | None = None) -> Request[FlowView]:
    """A flow: its parameters as JSON Schema, tasks, graph, workers and statistics.

    With a `tag`, as workers of that tag have it.
    """
    return call(api.GET_FLOW, given(tag=tag), flow_name=flow_name)


def get_run_graph(run_id: str) -> Request[RunGraph]:
    """The tasks of a run and the order between them, also before it has started."""
    return call(api.GET_RUN_GRAPH, run_id=run_id)
