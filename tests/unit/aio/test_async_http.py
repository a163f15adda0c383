"""Errors of connections that end as soon as they are open."""

import asyncio
import socket
import struct
import threading
from collections.abc import Iterator

import httpx
import pytest
import uvloop

from pyoco_server.aio.async_http import AsyncHttpClient

# Without the client under test, a third of the connections fail with an AttributeError.
_CONNECTIONS = 300
_AT_ONCE = 50


@pytest.fixture
def resetting_port() -> Iterator[int]:
    """Of a server that resets every connection when it has accepted it."""
    with socket.create_server(("127.0.0.1", 0), backlog=_AT_ONCE) as server:

        def reset_all() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return  # it was shut down
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()

        thread = threading.Thread(target=reset_all)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_reset_connection_is_a_transport_error_under_uvloop(resetting_port: int) -> None:
    async def errors() -> list[object]:
        async with AsyncHttpClient(trust_env=False) as http:
            url = f"http://127.0.0.1:{resetting_port}/"
            found: list[object] = []
            for _ in range(_CONNECTIONS // _AT_ONCE):
                found += await asyncio.gather(
                    *(http.get(url) for _ in range(_AT_ONCE)), return_exceptions=True
                )
            return found

    assert [each for each in uvloop.run(errors()) if not isinstance(each, httpx.TransportError)] == []


async def test_other_errors_are_not_taken_for_it() -> None:
    class Broken(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            raise AttributeError("a defect", name="getpeername", obj=self)

    async with AsyncHttpClient(transport=Broken()) as http:
        with pytest.raises(AttributeError, match="a defect"):
            await http.get("http://gateway/")
