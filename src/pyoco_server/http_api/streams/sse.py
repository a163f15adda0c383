"""Server-sent events as an answer, open until its events end, the client leaves or the gateway stops.

One that was opened with an API key ends when the key is revoked or expires.

An idle stream says something now and then, so that proxies and clients can tell silence from a dead
connection. The next events are only asked for when the client has taken the last ones.

What is sent comes as bytes, so that an event which thousands get is encoded once.
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

from pyoco_server.http_api.middleware.principal import access_over

MEDIA_TYPE: Final = "text/event-stream"
# Tests shorten it.
KEEPALIVE_SEC = 15.0

_KEEPALIVE: Final = b": keepalive\n\n"
_HEADERS: Final = {
    "Cache-Control": "no-store",
    # A proxy that collects the answer before it passes it on would hold the events back.
    "X-Accel-Buffering": "no",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    name: str
    data: Struct
    # What a client says in `Last-Event-ID` to go on behind this event.
    id: str | None = None

    def encode(self) -> bytes:
        head = f"event: {self.name}\ndata: ".encode()
        # JSON has no raw line breaks, so the data is one line.
        body = head + msgspec.json.encode(self.data) + b"\n\n"
        return body if self.id is None else f"id: {self.id}\n".encode() + body


# Whole events, encoded; some at a time.
EventSource = AsyncGenerator[bytes, None]


class EventStream(Response):
    """Sends what the source gives. The source is closed at the end, whatever ended it."""

    media_type = MEDIA_TYPE

    def __init__(self, source: EventSource, *, stopping: asyncio.Event, first: bytes = b"") -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._source = source
        self._stopping = stopping
        self._first = first

    @classmethod
    async def begin(cls, source: EventSource, *, stopping: asyncio.Event) -> Self:
        """With the first events at hand: what goes wrong until then can still be an error answer."""
        return cls(source, stopping=stopping, first=await anext(source))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sending = asyncio.create_task(self._send_events(send), name="sse:send")
        leaving = asyncio.create_task(_client_leaves(receive), name="sse:client")
        stopping = asyncio.create_task(self._stopping.wait(), name="sse:stopping")
        tasks: set[asyncio.Task[object]] = {sending, leaving, stopping}
        if (over := access_over(scope)) is not None:
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
    """The same events, with comments in between when they are long in coming."""
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


async def _client_leaves(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
