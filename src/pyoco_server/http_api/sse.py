"""Server-sent events as an answer, open until its events end, the client leaves or the gateway stops.

An idle stream sends a comment now and then, so that proxies and clients can tell silence from a dead
connection. The next events are only asked for when the client has taken the last ones.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

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


EventSource = AsyncGenerator[Sequence[Event], None]


class EventStream(Response):
    """Sends what the source gives. The source is closed at the end, whatever ended it."""

    media_type = MEDIA_TYPE

    def __init__(self, source: EventSource, *, stopping: asyncio.Event) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._source = source
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sending = asyncio.create_task(self._send_events(send), name="sse:send")
        leaving = asyncio.create_task(_client_leaves(receive), name="sse:client")
        stopping = asyncio.create_task(self._stopping.wait(), name="sse:stopping")
        tasks: set[asyncio.Task[object]] = {sending, leaving, stopping}
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
            while (events := await self._next_events(send)) is not None:
                body = b"".join(event.encode() for event in events)
                await send({"type": "http.response.body", "body": body, "more_body": True})

    async def _next_events(self, send: Send) -> Sequence[Event] | None:
        """What the source gives next, None at its end; until it comes, the client hears that all is well."""
        upcoming = asyncio.create_task(_next_of(self._source), name="sse:source")
        try:
            while not (await asyncio.wait([upcoming], timeout=KEEPALIVE_SEC))[0]:
                await send({"type": "http.response.body", "body": _KEEPALIVE, "more_body": True})
            return upcoming.result()
        finally:
            if not upcoming.done():
                upcoming.cancel()
                await asyncio.wait([upcoming])


async def _next_of(source: EventSource) -> Sequence[Event] | None:
    return await anext(source, None)


async def _client_leaves(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
