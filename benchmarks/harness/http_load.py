"""A load of requests over raw HTTP/1.1, by a client that needs little CPU time."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, cast

import msgspec

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length:"
_NO_HEADERS: Mapping[str, str] = {}


@dataclass
class Load:
    """The result of a load: run ids if the peer returned them, and the latency of each submit, in seconds."""

    run_ids: list[str] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def submitted(self) -> int:
        return len(self.latencies)


class RequestRefused(RuntimeError):
    """The response was not a success."""


class HttpConnection(asyncio.Protocol):
    """One kept-alive connection, one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[bytes] | None = None
        self._received = b""

    @classmethod
    async def open(cls, port: int) -> Self:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, "127.0.0.1", port)
        return connection

    async def call(self, request: bytes) -> bytes:
        """The body of the response."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    async def post(self, path: str, body: Any) -> Any:
        return msgspec.json.decode(await self.call(post_request(path, body)))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        received = self._received + data if self._received else data
        head, separator, body = received.partition(_END_OF_HEAD)
        if not separator or len(body) < _length_of_body(head):
            self._received = received
            return
        self._received = b""
        if self._answer is not None and not self._answer.done():
            if head.startswith(b"HTTP/1.1 2"):
                self._answer.set_result(body)
            else:
                self._answer.set_exception(RequestRefused(f"{head.splitlines()[0]!r}: {body.decode()}"))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("the gateway closed the connection"))


def post_request(path: str, body: Any, headers: Mapping[str, str] = _NO_HEADERS) -> bytes:
    content = msgspec.json.encode(body)
    described = {"Content-Type": "application/json", "Content-Length": str(len(content)), **headers}
    return _head("POST", path, described) + content


def get_request(path: str, headers: Mapping[str, str] = _NO_HEADERS) -> bytes:
    return _head("GET", path, headers)


def _head(method: str, path: str, headers: Mapping[str, str]) -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        *(f"{name}: {headers[name]}" for name in headers),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def submit(port: int, body: Any, *, runs: int, connections: int, limit_sec: float) -> Load:
    """The same submit again and again from so many connections, each waiting for its answers.

    The connections are there when the time begins, as those of a program that uses them are.
    """
    load = Load()
    request = post_request("/runs", body)
    numbers = iter(range(runs))
    opened = [await HttpConnection.open(port) for _ in range(connections)]
    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for connection in opened:
            group.create_task(_submit_on_one(connection, request, numbers, load, started + limit_sec))
    load.seconds = time.perf_counter() - started
    for connection in opened:
        connection.close()
    return load


async def _submit_on_one(
    connection: HttpConnection, request: bytes, numbers: Iterator[int], load: Load, limit: float
) -> None:
    for _ in numbers:
        sent_at = time.perf_counter()
        if sent_at > limit:
            break
        answer = await connection.call(request)
        load.latencies.append(time.perf_counter() - sent_at)
        load.run_ids.append(msgspec.json.decode(answer)["run_id"])


def _length_of_body(head: bytes) -> int:
    lower = head.lower()
    begin = lower.index(_LENGTH) + len(_LENGTH)
    end = lower.find(b"\r\n", begin)
    return int(lower[begin : end if end >= 0 else None])
