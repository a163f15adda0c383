"""Reading waits for people: `GET /waits` and `GET /waits/{wait_id}`."""

import msgspec
from fastapi import APIRouter
from msgspec import Raw, Struct, structs
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.errors import WaitNotFound
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.run_query import (
    QueryReader,
    Refused,
    choice,
    run_id_value,
    text_value,
    whole_number,
)
from pyoco_server.human.inbox.wait_items import OPEN, WaitFilter, WaitItem
from pyoco_server.records.wait_models import WaitEvent, WaitRecord, WaitState, is_wait_id
from pyoco_server.runs.index.cursors import BadCursor, Cursors
from pyoco_server.runs.index.sorting import Place

router = APIRouter()

LIMIT_DEFAULT = 50
LIMIT_MAX = 200

_PARAMETERS = ("state", "run_id", "flow", "tag", "task", "assignee", "limit", "cursor")


class WaitPage(Struct, kw_only=True):
    """One page of a list of waits."""

    items: list[WaitItem]
    # None on the last page.
    next_cursor: str | None
    # Of all pages.
    total: int


class _EncodedPage(Struct, kw_only=True):
    """The same, with items that are JSON already."""

    items: list[Raw]
    next_cursor: str | None
    total: int


class WaitView(WaitRecord, kw_only=True, omit_defaults=False):
    """A wait as it is answered: its record, and what happened to it."""

    events: list[WaitEvent]


@router.get("/waits", response_class=Response)
async def list_waits(request: Request) -> Response:
    """The waits that match, the open ones unless asked for others."""
    gateway = gateway_of(request)
    # The key is needed for pages only: whatever else is wrong can be told without NATS.
    cursors = await gateway.cursors.get() if "cursor" in request.query_params else None
    reader = QueryReader(request.query_params)
    reader.refuse_unknown(_PARAMETERS)
    wanted = WaitFilter(
        tenant=caller_of(request).confined_to,
        states=frozenset(map(WaitState, reader.each("state", choice(*WaitState)))) or OPEN,
        run_id=reader.one("run_id", run_id_value, None),
        flow=reader.one("flow", text_value, None),
        tag=reader.one("tag", text_value, None),
        task=reader.one("task", text_value, None),
        assignee=reader.one("assignee", text_value, None),
    )
    limit = reader.one("limit", whole_number(1, LIMIT_MAX), LIMIT_DEFAULT)
    after = _place_in(reader, cursors, wanted)
    reader.check()
    page = await gateway.waits.lists.page(wanted, limit=limit, after=after)
    last = page.goes_on_behind
    next_cursor = None if last is None else (await gateway.cursors.get()).write(last, wanted)
    return _json(_EncodedPage(items=page.items, next_cursor=next_cursor, total=page.total))


@router.get("/waits/{wait_id}", response_class=Response)
async def get_wait(request: Request, wait_id: str) -> Response:
    """One wait, open or not, with its question, its answer and what happened to it."""
    gateway = gateway_of(request)
    # An id that is none cannot exist, and must not reach a NATS subject.
    stored = await gateway.waits.store.get(wait_id) if is_wait_id(wait_id) else None
    if stored is None or not caller_of(request).sees(stored.record.tenant_id):
        if stored is not None:
            # As for one that the replica does not have: who counts our steps by the clock learns nothing.
            await gateway.waits.store.get_from_leader(wait_id)
        raise WaitNotFound(f"there is no wait {wait_id!r}")
    record = stored.record
    events = await gateway.waits.events.of_wait(wait_id)
    # A proposal that was approved and a default are kept once; who reads the wait is told what was decided.
    shown = structs.replace(record, payload=record.value)
    return _json(WaitView(**structs.asdict(shown), events=events))


def _place_in(reader: QueryReader, cursors: Cursors | None, wanted: WaitFilter) -> Place | None:
    def parse(text: str) -> Place:
        assert cursors is not None, "there is a cursor to read"
        try:
            return cursors.read(text, wanted)
        except BadCursor as bad:
            raise Refused(str(bad)) from None

    return reader.one("cursor", parse, None)


def _json(body: Struct) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
