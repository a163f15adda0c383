"""Watching a list of runs: `GET /runs/watch`, from the position that `GET /runs` has told with its answer."""

import time
from typing import Annotated

from fastapi import APIRouter, Header
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.errors import IndexNotReady
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.run_query import FILTERS, QueryReader, Refused, filter_in, whole_number
from pyoco_server.http_api.streams.sse import Event, EventSource, EventStream
from pyoco_server.http_api.streams.watch_limits import WatchTime, position_in_header
from pyoco_server.records.models import RunId
from pyoco_server.runs.index.run_filter import RunFilter
from pyoco_server.runs.index.run_summary import RunItem
from pyoco_server.runs.watch.list_following import ListedChange, ListNews, LostTrack
from pyoco_server.runs.watch.recent_changes import UNKNOWN_POSITION, Position

router = APIRouter()

_POSITION_WANTED = "wanted the X-Pyoco-Revision of a list, or the id of an event, such as 1a2b3c4d-4711"


class ListedRun(Struct, kw_only=True):
    """The data of an event `snapshot`: a run that is in the list, as the list has it."""

    run_id: RunId
    snapshot: RunItem
    # When it was told, unix seconds.
    ts: float


class UnlistedRun(Struct, kw_only=True):
    """The data of an event `removed`: a run that is not in the list any more."""

    run_id: RunId
    ts: float


class ListNote(Struct, kw_only=True):
    """The data of an event `heartbeat` or `reset`."""

    ts: float


@router.get("/runs/watch", response_class=Response)
async def watch_list(
    request: Request,
    last_event_id: Annotated[
        str | None, Header(description="Go on behind this event; wins over `after`.")
    ] = None,
) -> Response:
    """What changes in a list of runs, as server-sent events. Takes every filter of the list."""
    reader = QueryReader(request.query_params)
    reader.refuse_unknown({*FILTERS, "after", "timeout_sec"})
    wanted = filter_in(reader, caller_of(request))
    after = reader.one("after", _position, None)
    timeout_sec = reader.one("timeout_sec", whole_number(1, 600), None)
    reader.check()
    if last_event_id:
        # A browser that reconnects sends its first address again, and this: it is newer.
        after = position_in_header(last_event_id, _POSITION_WANTED)
    gateway = gateway_of(request)
    if not gateway.connection.ready:
        raise gateway.connection.unavailable()
    if not gateway.listing.changes.begun:
        # A gateway that has just started lists its runs within a moment, and so lets them be watched.
        await gateway.listing.lists.caught_up()
    if not gateway.listing.changes.begun:
        raise IndexNotReady
    if after is None:
        after = gateway.listing.changes.newest
    elif after.revision > gateway.listing.index.checkpoint.revision:
        # Another gateway may have read further. One that nobody can have read is of a history that was lost.
        await gateway.listing.lists.caught_up()
        if after.revision > gateway.listing.index.checkpoint.revision:
            after = UNKNOWN_POSITION
    source = _events(gateway, wanted, after, WatchTime(timeout_sec))
    return await EventStream.begin(source, stopping=gateway.stopping)


async def _events(gateway: Gateway, wanted: RunFilter, after: Position, time_left: WatchTime) -> EventSource:
    with gateway.listing.changes.following_list(wanted, after=after) as follower:
        # What changed since the list was read is there already; and the first event comes at once.
        silence = 0.0
        try:
            while True:
                news = await follower.next(silence)
                if news is not None and news.changes:
                    yield news.once(_encoded)
                elif news is None or not silence:
                    yield _note("heartbeat", id=str(follower.position))
                if time_left.over:
                    return
                silence = time_left.silence
        except LostTrack:
            yield _note("reset")


def _encoded(news: ListNews) -> bytes:
    now = time.time()
    return b"".join(_event(listed, news.up_to, now).encode() for listed in news.changes)


def _event(listed: ListedChange, up_to: Position, now: float) -> Event:
    change = listed.change
    place = str(Position(up_to.bucket, change.revision))
    if change.summary is None or not listed.entered:
        return Event(name="removed", id=place, data=UnlistedRun(run_id=change.run_id, ts=now))
    data = ListedRun(run_id=change.run_id, snapshot=change.summary.item, ts=now)
    return Event(name="snapshot", id=place, data=data)


def _note(name: str, *, id: str | None = None) -> bytes:
    return Event(name=name, id=id, data=ListNote(ts=time.time())).encode()


def _position(text: str) -> Position:
    position = Position.parse(text)
    if position is None:
        raise Refused(_POSITION_WANTED)
    return position
