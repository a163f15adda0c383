"""Watching the inbox: all open waits, then each change."""

import logging
import time

from msgspec import Raw, Struct
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api.endpoints.endpoint import LAST_EVENT_ID
from pyoco_server.api.endpoints.waits.wait_endpoints import WATCH_WAITS
from pyoco_server.api.run_types import WATCH_MAX_SEC
from pyoco_server.api.wait_types import InboxNote, WaitChanged, WaitWatchQuery
from pyoco_server.errors import PyocoError
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.principal import caller_of
from pyoco_server.http_api.requests.query import QueryReader, whole_number
from pyoco_server.http_api.routing import handles
from pyoco_server.http_api.services import Waits
from pyoco_server.http_api.streams.sse import (
    Event,
    EventSource,
    EventStream,
    WatchTime,
    has_read_up_to,
    position_in_header,
)
from pyoco_server.runs.watch.followers import ResyncRequired
from pyoco_server.runs.watch.recent_changes import BucketPosition
from pyoco_server.waits.human.inbox_hub import InboxChange, InboxFollower

log = logging.getLogger(__name__)

_EXPECTED_POSITION = "expected the id of an event, such as 1a2b3c4d-4711"


class _EncodedOpen(Struct, kw_only=True):
    """An OpenWaitsEvent whose waits are encoded already."""

    waits: list[Raw]
    ts: float


@handles(WATCH_WAITS)
async def watch_waits(request: Request) -> Response:
    reader = QueryReader(request, WaitWatchQuery)
    timeout_sec = reader.one("timeout_sec", whole_number(1, WATCH_MAX_SEC), None)
    reader.check()
    last_event_id = request.headers.get(LAST_EVENT_ID)
    after = position_in_header(last_event_id, _EXPECTED_POSITION) if last_event_id else None
    gateway = gateway_of(request)
    if not await has_read_up_to(gateway, gateway.waits, after):
        after = None
    source = _events(gateway.waits, caller_of(request).confined_to, after, WatchTime(timeout_sec))
    return await EventStream.begin(source, stopping=gateway.stopping)


async def _events(
    waits: Waits, tenant: str | None, after: BucketPosition | None, time_left: WatchTime
) -> EventSource:
    with waits.inbox.follow(tenant) as follower:
        follower.position = after
        # The first read does not wait, so that the first event is sent at once.
        yield await _next(waits, tenant, follower, 0.0)
        while not time_left.over:
            try:
                yield await _next(waits, tenant, follower, time_left.silence)
            except PyocoError as error:
                # The client connects again and gets this error as its response.
                log.info("a watch of waits ends: %s", error)
                return


async def _next(waits: Waits, tenant: str | None, follower: InboxFollower, within: float) -> bytes:
    try:
        changes = await follower.next(within)
    except ResyncRequired:
        items, revision = await waits.lists.all_open(tenant)
        follower.position = waits.inbox.position(revision)
        data = _EncodedOpen(waits=items, ts=time.time())
        return Event(name="open", id=str(follower.position), data=data).encode()
    if changes:
        return b"".join(_encoded(change, waits) for change in changes)
    # Its own position: those of other tenants' changes are not revealed.
    return Event(name="heartbeat", id=str(follower.position), data=InboxNote(ts=time.time())).encode()


def _encoded(change: InboxChange, waits: Waits) -> bytes:
    assert change.last_item is not None, "a wait that cannot be read is not sent"
    event = change.encoded(_event)
    return f"id: {waits.inbox.position(change.revision)}\n".encode() + event


def _event(change: InboxChange) -> bytes:
    """Encoded once for all followers."""
    assert change.last_item is not None
    data = WaitChanged(wait=change.last_item, ts=time.time())
    return Event(name="opened" if change.opened else "closed", data=data).encode()
