"""The gateway as a process: uvicorn with our signals, our logs and a socket that is already listening."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import uvicorn

from pyoco_server.http_api.server.bounded_http import BoundedHttp
from pyoco_server.system.garbage import spare_loaded_code

# Requests in flight are answered within the time-outs of NATS; more than this is a client that does not read.
_SHUTDOWN_SEC = 10


class _Server(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], None], on_stop: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._on_stop = on_stop

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the command: uvicorn would end the process by the signal it got."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit:
            raise RuntimeError("the gateway could not start; the log above says why") from None
        spare_loaded_code()
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn waits for open answers before it tells the app to end; a stream of events would not end.
        self._on_stop()
        await super().shutdown(sockets)


async def serve_gateway(
    app: Callable[..., Any],
    listener: socket.socket,
    *,
    on_ready: Callable[[], None],
    on_stop: Callable[[], None],
    until: Awaitable[object],
    tls: tuple[str, str] | None = None,
) -> None:
    """Answer requests until `until` is done, then finish those that have begun.

    `tls`: the files of the certificate and of its key; without, it is plain HTTP.
    """
    certificate, key = tls or (None, None)
    config = uvicorn.Config(
        app,
        http=BoundedHttp,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        # Who is connected is what we write down; what a proxy says of others is in its headers.
        proxy_headers=False,
        timeout_graceful_shutdown=_SHUTDOWN_SEC,
    )
    server = _Server(config, on_ready, on_stop)
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    ending = asyncio.ensure_future(until)
    try:
        await asyncio.wait([serving, ending], return_when=asyncio.FIRST_COMPLETED)
    finally:
        ending.cancel()
        server.should_exit = True
        await serving
