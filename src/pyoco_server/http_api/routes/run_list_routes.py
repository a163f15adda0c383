"""`GET /runs`: the list of runs, as an array, or page by page."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

import msgspec
from fastapi import APIRouter
from msgspec import UNSET, Raw, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.broker.stores.run_store import CorruptSnapshot
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.run_query import (
    FILTERS,
    QueryReader,
    Refused,
    choice,
    filter_in,
    whole_number,
    yes_or_no,
)
from pyoco_server.runs.index.cursors import BadCursor, Cursors
from pyoco_server.runs.index.run_filter import RunFilter
from pyoco_server.runs.index.run_index import ListedRun, Page, Place, Sort, SortField
from pyoco_server.runs.index.run_summary import RunItem

log = logging.getLogger(__name__)

router = APIRouter()

LIMIT_DEFAULT = 50
LIMIT_MAX = 200
ORDERS = ("desc", "asc")
INCLUDES = ("full", "all")
# Where `GET /runs/watch` goes on behind this list.
REVISION_HEADER = "X-Pyoco-Revision"

_OTHERS = ("sort", "order", "limit", "include", "cursor", "paged", "total")


class RunPage(Struct, kw_only=True):
    """One page of a list."""

    items: list[RunItem]
    # None on the last page.
    next_cursor: str | None
    # Only if it was asked for. Not exact: there are at least so many.
    total: int | UnsetType = UNSET
    total_exact: bool | UnsetType = UNSET


class _EncodedPage(Struct, kw_only=True):
    """The same, with items that are JSON already."""

    items: list[Raw]
    next_cursor: str | None
    total: int | UnsetType = UNSET
    total_exact: bool | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class ListQuery:
    wanted: RunFilter
    sort: Sort
    limit: int
    # Where the page begins.
    after: Place | None
    whole_snapshots: bool
    total: bool
    # Whether the answer is an object rather than an array.
    paged: bool


@router.get("/runs", response_class=Response)
async def list_runs(request: Request) -> Response:
    """The runs that match, an array; with `cursor`, `updated_after`, `paged` or `total` an object."""
    gateway = gateway_of(request)
    # The key is needed for pages only: whatever else is wrong can be told without NATS.
    cursors = await gateway.cursors.get() if "cursor" in request.query_params else None
    query = _query_in(request, cursors)
    page = await gateway.listing.lists.page(
        query.wanted, query.sort, limit=query.limit, after=query.after, total=query.total
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
    return Response(msgspec.json.encode(body), headers=headers, media_type="application/json")


def _query_in(request: Request, cursors: Cursors | None) -> ListQuery:
    reader = QueryReader(request.query_params)
    reader.refuse_unknown({*FILTERS, *_OTHERS})
    wanted = filter_in(reader, caller_of(request))
    field = reader.one("sort", choice(*SortField), "updated_at")
    sort = Sort(SortField(field), descending=reader.one("order", choice(*ORDERS), "desc") == "desc")
    after = _place_in(reader, cursors, wanted, sort)
    total = reader.one("total", yes_or_no, False)
    paged = reader.one("paged", yes_or_no, False)
    query = ListQuery(
        wanted=wanted,
        sort=sort,
        limit=reader.one("limit", whole_number(1, LIMIT_MAX), LIMIT_DEFAULT),
        after=after,
        whole_snapshots=bool(reader.each("include", choice(*INCLUDES))),
        total=total,
        paged=paged or total or after is not None or wanted.updated.after is not None,
    )
    reader.check()
    return query


def _place_in(reader: QueryReader, cursors: Cursors | None, wanted: RunFilter, sort: Sort) -> Place | None:
    def parse(text: str) -> Place:
        assert cursors is not None, "there is a cursor to read"
        try:
            return cursors.read(text, wanted, sort)
        except BadCursor as bad:
            raise Refused(str(bad)) from None

    return reader.one("cursor", parse, None)


async def _next_cursor(gateway: Gateway, query: ListQuery, page: Page) -> str | None:
    if not page.goes_on:
        return None
    return (await gateway.cursors.get()).write(page.runs[-1].place, query.wanted, query.sort)


async def _snapshots(gateway: Gateway, runs: list[ListedRun]) -> list[Raw]:
    """The whole runs, without those that were removed in this moment."""
    found = await asyncio.gather(*(_snapshot(gateway, run.run_id) for run in runs))
    return [snapshot for snapshot in found if snapshot is not None]


async def _snapshot(gateway: Gateway, run_id: str) -> Raw | None:
    try:
        stored = await gateway.runs.store.get(run_id)
    except CorruptSnapshot as error:
        log.warning("a run is left out of a list: %s", error, extra={"run_id": run_id})
        return None
    return None if stored is None else Raw(msgspec.json.encode(stored.snapshot))
