"""A client of server-sent events that keeps the events received so far."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx

from pyoco_server.http_client.event_stream import ServerSentEvent, events_in
from tests.support.waiting import eventually


class EventReader:
    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.raw = b""
        # The server ended the response.
        self.over = False

    @property
    def events(self) -> list[ServerSentEvent]:
        return list(events_in([self.raw]))

    @property
    def texts(self) -> list[str]:
        """The texts of the log lines."""
        return [json.loads(event.data)["text"] for event in self.events if event.name == "line"]

    @property
    def end(self) -> Any:
        """The data of the event `end`, once it was received."""
        return next((json.loads(event.data) for event in self.events if event.name == "end"), None)

    async def reads(self, *texts: str) -> None:
        """Wait until these are the lines received so far."""
        await eventually(lambda: self.texts == list(texts), describe=f"lines {texts}")

    async def is_over(self) -> None:
        await eventually(lambda: self.over, describe="the response has ended")

    async def keep_reading(self) -> None:
        async for chunk in self.response.aiter_raw():
            self.raw += chunk
        self.over = True


@asynccontextmanager
async def reading_events(http: httpx.AsyncClient, path: str, **request: Any) -> AsyncIterator[EventReader]:
    """The events of a response, read in the background; leaving the block disconnects."""
    async with http.stream("GET", path, **request) as response:
        assert response.status_code == 200, await response.aread()
        reading = EventReader(response)
        task = asyncio.create_task(reading.keep_reading())
        try:
            yield reading
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()


@asynccontextmanager
async def raw_response(
    http: httpx.AsyncClient, path: str, *, buffer: int
) -> AsyncIterator[asyncio.StreamReader]:
    """The bytes of a response, read from the network only as the test reads them."""
    address = urlsplit(str(http.base_url))
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=buffer)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    try:
        yield reader
    finally:
        writer.close()
