"""The list of runs, as an array, or page by page."""

import asyncio
from typing import Any, get_args

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api import run_types
from pyoco_server.api.endpoints.runs.run_endpoints import LIST_RUNS, REVISION_HEADER
from pyoco_server.errors import UnreadableRecord
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.principal import caller_of
from pyoco_server.http_api.requests.query import (
    QueryReader,
    choice,
    cursor_value,
    filter_in,
    whole_number,
    yes_or_no,
)
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.routing import handles
from pyoco_server.runs.index.pagination import Sort, SortField
from pyoco_server.runs.index.run_index import FoundRun


class _EncodedPage(Struct, kw_only=True):
    """A RunPage or SnapshotPage whose items are encoded already."""

    items: list[Raw]
    next_cursor: str | None
    total: int | UnsetType = UNSET
    total_exact: bool | UnsetType = UNSET


@handles(LIST_RUNS)
async def list_runs(request: Request) -> Response:
    gateway = gateway_of(request)
    # Without a cursor its key is not needed: a wrong query is refused even while NATS is not available.
    cursors = await gateway.cursors.get() if "cursor" in request.query_params else None
    reader = QueryReader(request, run_types.RunListQuery)
    selected = filter_in(reader, caller_of(request))
    field = reader.one("sort", choice(*SortField), "updated_at")
    order = reader.one("order", choice(*get_args(run_types.RunOrder)), "desc")
    sort = Sort(SortField(field), descending=order == "desc")
    after = reader.one("cursor", cursor_value(cursors, selected, sort), None)
    total = reader.one("total", yes_or_no, False)
    paged = reader.one("paged", yes_or_no, False)
    limit = reader.one("limit", whole_number(1, run_types.RUN_LIMIT_MAX), run_types.RUN_LIMIT_DEFAULT)
    include = {*reader.each("include", choice(*get_args(run_types.RunListInclude)))}
    reader.check()

    # A whole snapshot has its params.
    whole_snapshots = bool(include - {"params"})
    page = await gateway.listing.lists.page(
        selected,
        sort,
        limit=limit,
        after=after,
        total=total,
        with_params="params" in include and not whole_snapshots,
    )
    items = await _snapshots(gateway, page.runs) if whole_snapshots else [run.item for run in page.runs]
    body: Any = items
    if paged or total or after is not None or selected.updated.after is not None:
        next_cursor = None
        if page.has_more:
            next_cursor = (await gateway.cursors.get()).write(page.runs[-1].key, selected, sort)
        body = _EncodedPage(
            items=items,
            next_cursor=next_cursor,
            total=UNSET if page.total is None else page.total,
            total_exact=page.total_exact if total else UNSET,
        )
    headers = {REVISION_HEADER: str(gateway.listing.run_hub.position(page.revision))}
    return json_response(body, headers)


async def _snapshots(gateway: Gateway, runs: list[FoundRun]) -> list[Raw]:
    """The whole snapshots, without runs that were removed meanwhile, or cannot be read."""
    found = await asyncio.gather(*(_snapshot(gateway, run.run_id) for run in runs))
    return [snapshot for snapshot in found if snapshot is not None]


async def _snapshot(gateway: Gateway, run_id: str) -> Raw | None:
    try:
        stored = await gateway.runs.store.get(run_id)
    except UnreadableRecord:
        return None
    if stored is None:
        return None
    return Raw(msgspec.json.encode(run_types.public_snapshot(stored.snapshot, records=True)))
