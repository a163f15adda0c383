"""Watching a list of runs, from the position in the response of `GET /runs`."""

import time
from collections.abc import Callable
from typing import get_args

from msgspec import UNSET, structs
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api.endpoints.endpoint import LAST_EVENT_ID
from pyoco_server.api.endpoints.runs.run_endpoints import WATCH_RUNS
from pyoco_server.api.run_types import (
    WATCH_MAX_SEC,
    ListedRun,
    ListNote,
    RunListWatchInclude,
    RunListWatchQuery,
    UnlistedRun,
)
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.principal import caller_of
from pyoco_server.http_api.requests.query import InvalidValue, QueryReader, choice, filter_in, whole_number
from pyoco_server.http_api.routing import handles
from pyoco_server.http_api.streams.sse import (
    Event,
    EventSource,
    EventStream,
    WatchTime,
    has_read_up_to,
    position_in_header,
)
from pyoco_server.runs.index.run_summary import RunItem, RunSummary
from pyoco_server.runs.index.search.run_filter import RunFilter
from pyoco_server.runs.watch.followers import ResyncRequired
from pyoco_server.runs.watch.recent_changes import UNKNOWN_POSITION, BucketPosition
from pyoco_server.runs.watch.run_hub import ListChanges, ListedChange, RunHub

_EXPECTED_POSITION = "expected the X-Pyoco-Revision of a list, or the id of an event, such as 1a2b3c4d-4711"


@handles(WATCH_RUNS)
async def watch_list(request: Request) -> Response:
    reader = QueryReader(request, RunListWatchQuery)
    selected = filter_in(reader, caller_of(request))
    after = reader.one("after", _position, None)
    timeout_sec = reader.one("timeout_sec", whole_number(1, WATCH_MAX_SEC), None)
    with_params = bool(reader.each("include", choice(*get_args(RunListWatchInclude))))
    reader.check()
    if last_event_id := request.headers.get(LAST_EVENT_ID):
        # A browser that reconnects sends its first URL again, and this newer position.
        after = position_in_header(last_event_id, _EXPECTED_POSITION)
    gateway = gateway_of(request)
    changes = gateway.listing.run_hub
    if not await has_read_up_to(gateway, gateway.listing, after):
        after = UNKNOWN_POSITION
    encode = _encoded_with_params if with_params else _encoded
    source = _events(changes, selected, after or changes.newest, WatchTime(timeout_sec), encode)
    return await EventStream.begin(source, stopping=gateway.stopping)


async def _events(
    changes: RunHub,
    selected: RunFilter,
    after: BucketPosition,
    time_left: WatchTime,
    encode: Callable[[ListChanges], bytes],
) -> EventSource:
    with changes.follow_list(selected, after=after) as follower:
        # The first read does not wait: it has what changed since the list was read, if anything.
        silence = 0.0
        try:
            while True:
                news = await follower.next(silence)
                if news is not None and news.changes:
                    yield news.encoded(encode)
                elif news is None or not silence:
                    yield _note("heartbeat", id=str(follower.position))
                if time_left.over:
                    return
                silence = time_left.silence
        except ResyncRequired:
            yield _note("reset")


def _encoded(news: ListChanges) -> bytes:
    now = time.time()
    return b"".join(_event(each, news.up_to, now, _item).encode() for each in news.changes)


def _encoded_with_params(news: ListChanges) -> bytes:
    now = time.time()
    return b"".join(_event(each, news.up_to, now, _item_with_params).encode() for each in news.changes)


def _item(summary: RunSummary) -> RunItem:
    return summary.item


def _item_with_params(summary: RunSummary) -> RunItem:
    return structs.replace(summary.item, params_preview=UNSET if summary.params is None else summary.params)


def _event(
    listed: ListedChange, up_to: BucketPosition, now: float, item_of: Callable[[RunSummary], RunItem]
) -> Event:
    change = listed.change
    place = str(BucketPosition(up_to.bucket, change.revision))
    if change.summary is None or not listed.entered:
        return Event(name="removed", id=place, data=UnlistedRun(run_id=change.run_id, ts=now))
    data = ListedRun(run_id=change.run_id, snapshot=item_of(change.summary), ts=now)
    return Event(name="snapshot", id=place, data=data)


def _note(name: str, *, id: str | None = None) -> bytes:
    return Event(name=name, id=id, data=ListNote(ts=time.time())).encode()


def _position(text: str) -> BucketPosition:
    position = BucketPosition.parse(text)
    if position is None:
        raise InvalidValue(_EXPECTED_POSITION)
    return position
