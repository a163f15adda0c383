"""Server-sent events.

A stream ends when its events end, the client disconnects, the gateway stops, or its API key is revoked or
expires. The next events are read when the client has received the last ones. Events are bytes, so that one
with thousands of receivers is encoded once.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Self

import msgspec
from msgspec import Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pyoco_server.api.endpoints.endpoint import LAST_EVENT_ID
from pyoco_server.errors import FieldProblem, IndexNotReady, InvalidListQuery, shortened
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.middleware.principal import access_ended
from pyoco_server.http_api.services import RunReadModel, Waits
from pyoco_server.runs.watch.recent_changes import BucketPosition

MEDIA_TYPE: Final = "text/event-stream"
# A client notices within ten seconds that the gateway is gone. Tests shorten it.
KEEPALIVE_SEC = 5.0

_KEEPALIVE: Final = b": keepalive\n\n"
_HEADERS: Final = {
    "Cache-Control": "no-store",
    # No buffering by nginx.
    "X-Accel-Buffering": "no",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    name: str
    data: Struct
    # For `Last-Event-ID`, to continue after this event.
    id: str | None = None

    def encode(self) -> bytes:
        head = f"event: {self.name}\ndata: ".encode()
        # JSON has no raw line breaks, so the data is one line.
        body = head + msgspec.json.encode(self.data) + b"\n\n"
        return body if self.id is None else f"id: {self.id}\n".encode() + body


# Encoded events, one or more at a time.
EventSource = AsyncGenerator[bytes, None]


class EventStream(Response):
    """Sends the events of the source, and closes it at the end."""

    media_type = MEDIA_TYPE

    def __init__(self, source: EventSource, *, stopping: asyncio.Event, first: bytes = b"") -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._source = source
        self._stopping = stopping
        self._first = first

    @classmethod
    async def begin(cls, source: EventSource, *, stopping: asyncio.Event) -> Self:
        """Read the first events, so that an error until then is an error response."""
        return cls(source, stopping=stopping, first=await anext(source))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sending = asyncio.create_task(self._send_events(send), name="sse:send")
        leaving = asyncio.create_task(_client_disconnects(receive), name="sse:client")
        stopping = asyncio.create_task(self._stopping.wait(), name="sse:stopping")
        tasks: set[asyncio.Task[object]] = {sending, leaving, stopping}
        if (over := access_ended(scope)) is not None:
            tasks.add(asyncio.create_task(over.wait(), name="sse:access"))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if not sending.cancelled():
            sending.result()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_events(self, send: Send) -> None:
        async with aclosing(self._source):
            if self._first:
                await send({"type": "http.response.body", "body": self._first, "more_body": True})
            async for events in self._source:
                await send({"type": "http.response.body", "body": events, "more_body": True})


async def with_keepalives(source: EventSource) -> EventSource:
    """The same events, with comments in between while there are none."""
    async with aclosing(source):
        while True:
            upcoming = asyncio.create_task(_next_of(source), name="sse:source")
            try:
                while not (await asyncio.wait([upcoming], timeout=KEEPALIVE_SEC))[0]:
                    yield _KEEPALIVE
            finally:
                if not upcoming.done():
                    upcoming.cancel()
                    await asyncio.wait([upcoming])
            if (events := upcoming.result()) is None:
                return
            yield events


async def _next_of(source: EventSource) -> bytes | None:
    return await anext(source, None)


async def _client_disconnects(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def position_in_header(text: str, expected: str) -> BucketPosition:
    """The position of `Last-Event-ID`, which a browser sends when it reconnects."""
    position = BucketPosition.parse(text)
    if position is None:
        raise InvalidListQuery(problems=[FieldProblem(LAST_EVENT_ID, expected, shortened(text))])
    return position


async def has_read_up_to(gateway: Gateway, model: RunReadModel | Waits, after: BucketPosition | None) -> bool:
    """Whether the gateway follows the bucket, and has read as far as the client has.

    It has not when the stream was truncated before the position of the client.
    """
    hub = model.run_hub if isinstance(model, RunReadModel) else model.inbox
    if not gateway.connection.ready:
        raise gateway.connection.unavailable()
    if not hub.ready:
        # A gateway that has just started catches up within a moment.
        await model.lists.caught_up()
    if not hub.ready:
        raise IndexNotReady
    if after is not None and after.revision > model.index.checkpoint.revision:
        # Another gateway may have read further.
        await model.lists.caught_up()
    return after is None or after.revision <= model.index.checkpoint.revision


class WatchTime:
    """The time limit of one watch."""

    def __init__(self, timeout_sec: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._ends_at = None if timeout_sec is None else self._loop.time() + timeout_sec

    @property
    def over(self) -> bool:
        return self._ends_at is not None and self._loop.time() >= self._ends_at

    @property
    def silence(self) -> float:
        """How long to wait for the next event before a heartbeat."""
        if self._ends_at is None:
            return KEEPALIVE_SEC
        return min(KEEPALIVE_SEC, max(0.0, self._ends_at - self._loop.time()))
