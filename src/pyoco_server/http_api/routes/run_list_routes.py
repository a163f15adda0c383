"""The list of runs, as an array, or page by page."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, get_args

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api import run_types
from pyoco_server.api.endpoints import LIST_RUNS, REVISION_HEADER
from pyoco_server.broker.stores.run_store import CorruptSnapshot
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
from pyoco_server.runs.index.pagination import Cursors, Sort, SortField, SortKey
from pyoco_server.runs.index.run_filter import RunFilter
from pyoco_server.runs.index.run_index import ListedRun, Page

log = logging.getLogger(__name__)


class _EncodedPage(Struct, kw_only=True):
    """A RunPage or SnapshotPage whose items are encoded already."""

    items: list[Raw]
    next_cursor: str | None
    total: int | UnsetType = UNSET
    total_exact: bool | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class ListQuery:
    selected: RunFilter
    sort: Sort
    limit: int
    # Where the page begins.
    after: SortKey | None
    whole_snapshots: bool
    total: bool
    # Whether the response is an object rather than an array.
    paged: bool


@handles(LIST_RUNS)
async def list_runs(request: Request) -> Response:
    gateway = gateway_of(request)
    # Without a cursor its key is not needed: a wrong query is refused even while NATS is not available.
    cursors = await gateway.cursors.get() if "cursor" in request.query_params else None
    query = _query_in(request, cursors)
    page = await gateway.listing.lists.page(
        query.selected, query.sort, limit=query.limit, after=query.after, total=query.total
    )
    items = await _snapshots(gateway, page.runs) if query.whole_snapshots else [run.item for run in page.runs]
    body: Any = items
    if query.paged:
        body = _EncodedPage(
            items=items,
            next_cursor=await _next_cursor(gateway, query, page),
            total=UNSET if page.total is None else page.total,
            total_exact=page.total_exact if query.total else UNSET,
        )
    headers = {REVISION_HEADER: str(gateway.listing.changes.position(page.revision))}
    return json_response(body, headers)


def _query_in(request: Request, cursors: Cursors | None) -> ListQuery:
    reader = QueryReader(request, run_types.RunListQuery)
    selected = filter_in(reader, caller_of(request))
    field = reader.one("sort", choice(*SortField), "updated_at")
    sort = Sort(
        SortField(field),
        descending=reader.one("order", choice(*get_args(run_types.RunOrder)), "desc") == "desc",
    )
    after = reader.one("cursor", cursor_value(cursors, selected, sort), None)
    total = reader.one("total", yes_or_no, False)
    paged = reader.one("paged", yes_or_no, False)
    query = ListQuery(
        selected=selected,
        sort=sort,
        limit=reader.one("limit", whole_number(1, run_types.RUN_LIMIT_MAX), run_types.RUN_LIMIT_DEFAULT),
        after=after,
        whole_snapshots=bool(reader.each("include", choice(*get_args(run_types.RunListInclude)))),
        total=total,
        paged=paged or total or after is not None or selected.updated.after is not None,
    )
    reader.check()
    return query


async def _next_cursor(gateway: Gateway, query: ListQuery, page: Page) -> str | None:
    if not page.has_more:
        return None
    return (await gateway.cursors.get()).write(page.runs[-1].key, query.selected, query.sort)


async def _snapshots(gateway: Gateway, runs: list[ListedRun]) -> list[Raw]:
    """The whole snapshots, without runs that were removed meanwhile."""
    found = await asyncio.gather(*(_snapshot(gateway, run.run_id) for run in runs))
    return [snapshot for snapshot in found if snapshot is not None]


async def _snapshot(gateway: Gateway, run_id: str) -> Raw | None:
    try:
        stored = await gateway.runs.store.get(run_id)
    except CorruptSnapshot as error:
        log.warning("left out of a list: %s", error, extra={"run_id": run_id})
        return None
    return None if stored is None else Raw(msgspec.json.encode(stored.snapshot))
