"""Serving the gateway with uvicorn, on a socket that is already listening."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import uvicorn

from pyoco_server.aio.garbage_collection import freeze_loaded_code
from pyoco_server.telemetry.fast_paths import report_fast_path

# Requests in flight end within the timeouts of NATS; a longer one has a client that does not read.
_SHUTDOWN_SEC = 10
_MAX_HEAD_BYTES = 64 * 1024
_MAX_MESSAGE_BYTES = 64 * 1024


class _Server(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], None], on_stop: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._on_stop = on_stop

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The command handles signals: uvicorn would end the process with the signal."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit:
            raise RuntimeError("the gateway could not start; the log above says why") from None
        freeze_loaded_code()
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn waits for open responses before it stops the app; an event stream would never end.
        self._on_stop()
        await super().shutdown(sockets)


def protocol_options() -> dict[str, Any]:
    """Our HTTP protocol; where uvicorn differs from what that needs, uvicorn's own with its public limit."""
    mismatch: str | None
    try:
        from pyoco_server.http_api.server import uvicorn_adapter  # noqa: PLC0415 - fails with another uvicorn

        mismatch = uvicorn_adapter.mismatch()
    except (ImportError, AttributeError) as error:
        mismatch = str(error)
    if report_fast_path("uvicorn", mismatch):
        return {"http": uvicorn_adapter.BoundedHttpProtocol}
    return {"http": "h11", "h11_max_incomplete_event_size": _MAX_HEAD_BYTES}


def _socket_protocol() -> type[asyncio.Protocol]:
    # Most gateways serve no WebSockets, and need not load the library.
    from pyoco_server.http_api.server.socket_protocol import SocketProtocol  # noqa: PLC0415

    return SocketProtocol


async def serve_gateway(
    app: Callable[..., Any],
    listener: socket.socket,
    *,
    on_ready: Callable[[], None],
    on_stop: Callable[[], None],
    until: Awaitable[object],
    tls: tuple[str, str] | None = None,
    websockets: bool = False,
) -> None:
    """Serve until `until` is done, then finish the requests in flight.

    `tls`: the files of the certificate and of its key; plain HTTP without. Without `websockets`, a handshake
    is an ordinary request.
    """
    certificate, key = tls or (None, None)
    config = uvicorn.Config(
        app,
        **protocol_options(),
        ssl_certfile=certificate,
        ssl_keyfile=key,
        ws=_socket_protocol() if websockets else "none",
        # Clients send nothing but the closing handshake.
        ws_max_size=_MAX_MESSAGE_BYTES,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        # Log the address that is connected, not one that a proxy's header claims.
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
