"""Watching the inbox: `GET /waits/watch`, all that waits for an answer, and each change of it."""

import logging
import time
from typing import Annotated

from fastapi import APIRouter, Header
from msgspec import Raw, Struct
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.errors import IndexNotReady, PyocoError
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.run_query import QueryReader, whole_number
from pyoco_server.http_api.streams.sse import Event, EventSource, EventStream
from pyoco_server.http_api.streams.watch_limits import WatchTime, position_in_header
from pyoco_server.human.inbox.inbox_hub import InboxChange, InboxFollower, LostTrack
from pyoco_server.human.inbox.wait_items import WaitItem
from pyoco_server.runs.watch.recent_changes import Position

log = logging.getLogger(__name__)

router = APIRouter()

_POSITION_WANTED = "wanted the id of an event, such as 1a2b3c4d-4711"


class OpenWaitsEvent(Struct, kw_only=True):
    """The data of an event `open`: all that is open, in place of whatever was told before."""

    waits: list[WaitItem]
    # When it was told, unix seconds.
    ts: float


class _EncodedOpen(Struct, kw_only=True):
    """The same, with waits that are JSON already."""

    waits: list[Raw]
    ts: float


class WaitChanged(Struct, kw_only=True):
    """The data of an event `opened` or `closed`: the wait as it is now."""

    wait: WaitItem
    ts: float


class InboxNote(Struct, kw_only=True):
    """The data of an event `heartbeat`."""

    ts: float


@router.get("/waits/watch", response_class=Response)
async def watch_waits(
    request: Request,
    last_event_id: Annotated[str | None, Header(description="Go on behind this event.")] = None,
) -> Response:
    """What waits for an answer, as server-sent events: first all of it, then what opens and closes."""
    reader = QueryReader(request.query_params)
    reader.refuse_unknown({"timeout_sec"})
    timeout_sec = reader.one("timeout_sec", whole_number(1, 600), None)
    reader.check()
    after = position_in_header(last_event_id, _POSITION_WANTED) if last_event_id else None
    gateway = gateway_of(request)
    if not gateway.connection.ready:
        raise gateway.connection.unavailable()
    if not gateway.waits.inbox.begun:
        # A gateway that has just started lists its waits within a moment, and so lets them be watched.
        await gateway.waits.lists.caught_up()
    if not gateway.waits.inbox.begun:
        raise IndexNotReady
    if after is not None and after.revision > gateway.waits.index.checkpoint.revision:
        # Another gateway may have read further. One that nobody can have read is of a history that was lost.
        await gateway.waits.lists.caught_up()
        if after.revision > gateway.waits.index.checkpoint.revision:
            after = None
    source = _events(gateway, caller_of(request).confined_to, after, WatchTime(timeout_sec))
    return await EventStream.begin(source, stopping=gateway.stopping)


async def _events(
    gateway: Gateway, tenant: str | None, after: Position | None, time_left: WatchTime
) -> EventSource:
    with gateway.waits.inbox.following(tenant) as follower:
        follower.position = after
        # What changed meanwhile is there already; and the first event comes at once.
        yield await _next(gateway, tenant, follower, 0.0)
        while not time_left.over:
            try:
                yield await _next(gateway, tenant, follower, time_left.silence)
            except PyocoError as error:
                # The client asks again, and is told by an answer of its own what is wrong.
                log.info("a watch of waits ends: %s", error)
                return


async def _next(gateway: Gateway, tenant: str | None, follower: InboxFollower, within: float) -> bytes:
    try:
        changes = await follower.next(within)
    except LostTrack:
        waits, revision = await gateway.waits.lists.all_open(tenant)
        follower.position = gateway.waits.inbox.position(revision)
        data = _EncodedOpen(waits=waits, ts=time.time())
        return Event(name="open", id=str(follower.position), data=data).encode()
    if changes:
        return b"".join(_encoded(change, gateway) for change in changes)
    # The position of one who is told nothing: what others have is none of its business.
    return Event(name="heartbeat", id=str(follower.position), data=InboxNote(ts=time.time())).encode()


def _encoded(change: InboxChange, gateway: Gateway) -> bytes:
    assert change.known is not None, "nobody is told of a wait that nobody could read"
    event = change.once(_event)
    return f"id: {gateway.waits.inbox.position(change.revision)}\n".encode() + event


def _event(change: InboxChange) -> bytes:
    """For all who are told of it."""
    assert change.known is not None
    data = WaitChanged(wait=change.known, ts=time.time())
    return Event(name="opened" if change.opened else "closed", data=data).encode()
