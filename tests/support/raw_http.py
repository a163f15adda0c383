"""Requests as bytes on a socket, to an app behind the gateway's HTTP server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from pyoco_server.cli.server.listening import listen
from pyoco_server.http_api.server.asgi_server import serve_gateway
from tests.support.waiting import LIMIT_SEC

Address = tuple[str, int]


async def refuse_at_once(scope: Any, receive: Any, send: Any) -> None:
    """Responds without reading the body."""
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"no"})


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Responds with the body."""
    if scope["type"] == "lifespan":
        await refuse_at_once(scope, receive, send)
        return
    body, message = b"", {"more_body": True}
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
    asked = b",".join(name for name, _ in scope["headers"])
    headers = [(b"content-length", b"%d" % len(body)), (b"asked", asked)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def serving(app: Callable[..., Any] = refuse_at_once) -> AsyncIterator[Address]:
    listener, stop, ready = listen("127.0.0.1", 0), asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(
        serve_gateway(app, listener, on_ready=ready.set, on_stop=lambda: None, until=stop.wait())
    )
    await ready.wait()
    try:
        yield listener.getsockname()
    finally:
        stop.set()
        await task
        listener.close()


@asynccontextmanager
async def connected(
    app: Callable[..., Any] = refuse_at_once,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with serving(app) as address, asyncio.timeout(LIMIT_SEC):
        reader, writer = await asyncio.open_connection(*address)
        yield reader, writer
        writer.close()


async def answer_to(app: Callable[..., Any], *parts: bytes) -> tuple[bytes, bool]:
    """The response, and whether the connection was closed before all parts were sent."""
    cut_off = False
    async with connected(app) as (reader, writer):
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
            writer.write_eof()
        except ConnectionError:
            cut_off = True
        try:
            return await reader.read(), cut_off
        except ConnectionError:
            return b"", True
