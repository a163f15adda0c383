"""Watching one run: its newest snapshot at once, then each change, to its end."""

import re
import time
from dataclasses import dataclass
from functools import partial
from typing import Final, get_args

from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api.endpoints.endpoint import LAST_EVENT_ID
from pyoco_server.api.endpoints.runs.run_endpoints import WATCH_RUN
from pyoco_server.api.run_types import (
    WATCH_MAX_SEC,
    RunInclude,
    RunNote,
    RunWatchQuery,
    WatchedRun,
    public_snapshot,
)
from pyoco_server.broker.stores.runs.run_store import StoredRun
from pyoco_server.errors import FieldProblem, InvalidRequest, UnreadableRecord, shortened
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.principal import caller_of
from pyoco_server.http_api.requests.query import RequestQueryReader, choice, time_value, whole_number
from pyoco_server.http_api.routing import handles
from pyoco_server.http_api.streams.sse import Event, EventSource, EventStream, WatchTime
from pyoco_server.records.runs.run_models import RunSnapshot, decode_snapshot
from pyoco_server.runs.lifecycle.tenancy import Caller, find_run
from pyoco_server.runs.watch.run_hub import RunChange

_REVISION: Final = re.compile(r"[0-9]{1,18}")


@handles(WATCH_RUN)
async def watch_run(request: Request, run_id: str) -> Response:
    query = RequestQueryReader(request, RunWatchQuery)
    records = bool(query.each("include", choice(*get_args(RunInclude))))
    since = query.one("since", time_value, None)
    time_left = WatchTime(query.one("timeout_sec", whole_number(1, WATCH_MAX_SEC), None))
    query.check()
    known = _Known(revision=_revision(request.headers.get(LAST_EVENT_ID)), since=since)
    gateway, caller = gateway_of(request), caller_of(request)
    source = _snapshots(gateway, run_id, caller, known, time_left, records=records)
    return await EventStream.begin(source, stopping=gateway.stopping)


@dataclass(frozen=True, slots=True)
class _Known:
    """What the client has already."""

    revision: int
    since: float | None

    def covers(self, stored: StoredRun) -> bool:
        if stored.snapshot.status.terminal:
            return False  # the end is always sent
        # An older revision is sent: the bucket may have lost the one that the client has.
        return stored.revision == self.revision or (
            self.since is not None and stored.snapshot.updated_at <= self.since
        )


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A snapshot as an event."""

    event: bytes
    final: bool


async def _snapshots(
    gateway: Gateway, run_id: str, caller: Caller, known: _Known, time_left: WatchTime, *, records: bool
) -> EventSource:
    encode = _with_records if records else _without_records
    with gateway.listing.run_hub.follow_run(run_id) as follower:
        # Read after the follower is registered, so that no change is missed. And from the leader: a replica
        # may lag behind the feed, which does not repeat a change.
        stored = await find_run(gateway.runs.store, run_id, caller)
        sent_revision = stored.revision
        if known.covers(stored):
            yield _note("heartbeat", run_id)
        else:
            first = _encoded(stored.snapshot, stored.revision, records=records)
            yield first.event
            if first.final:
                return
        while not time_left.over:
            change = await follower.next(time_left.silence)
            if follower.ended:
                return
            if change is None:
                yield _note("heartbeat", run_id)
            elif change.revision > sent_revision:
                sent_revision = change.revision
                if change.data is None:
                    yield _note("removed", run_id)
                    return
                try:
                    encoded = change.encoded(encode)
                except UnreadableRecord:
                    # The client connects again, and gets this as the response.
                    return
                yield encoded.event
                if encoded.final:
                    return


def _changed(change: RunChange, *, records: bool) -> _Encoded:
    assert change.data is not None
    return _encoded(decode_snapshot(change.data), change.revision, records=records)


# Two functions, since a change is encoded once for each.
_with_records = partial(_changed, records=True)
_without_records = partial(_changed, records=False)


def _encoded(snapshot: RunSnapshot, revision: int, *, records: bool) -> _Encoded:
    snapshot = public_snapshot(snapshot, records=records)
    data = WatchedRun(run_id=snapshot.run_id, snapshot=snapshot, ts=time.time())
    event = Event(name="snapshot", id=str(revision), data=data)
    return _Encoded(event.encode(), final=snapshot.status.terminal)


def _note(name: str, run_id: str) -> bytes:
    return Event(name=name, data=RunNote(run_id=run_id, ts=time.time())).encode()


def _revision(last_event_id: str | None) -> int:
    if not last_event_id:
        return 0
    if _REVISION.fullmatch(last_event_id) is None:
        message = "expected the id of an event of this watch, such as 4711"
        raise InvalidRequest(problems=[FieldProblem(LAST_EVENT_ID, message, value=shortened(last_event_id))])
    return int(last_event_id)
