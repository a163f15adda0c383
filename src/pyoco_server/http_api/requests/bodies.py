"""Reading the body of a request, up to a limit."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from pyoco_server.errors import FieldProblem, InvalidRequest
from pyoco_server.http_api.requests.invalid_input import invalid_body

T = TypeVar("T", bound=msgspec.Struct)

_SMALL_BODY_BYTES = 16 * 1024

# How much of an oversized body is read and discarded, so that its sender reads the response.
_DISCARD_BYTES = 64 * 1024 * 1024
_DISCARD_SEC = 5.0


async def limited_body(request: Request, max_bytes: int, *, field: str, cure: str) -> bytes:
    """The whole body; InvalidRequest as soon as it is longer than `max_bytes`."""
    # Faster than `request.stream()` for a body in one chunk, as nearly all are.
    chunks: list[bytes] = []
    size = 0
    goes_on = True
    while goes_on:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        goes_on = message.get("more_body", False)
        size += len(chunk)
        if size > max_bytes:
            problem = FieldProblem(field, f"the body is larger than {max_bytes} bytes; {cure}")
            refusal = InvalidRequest(problems=[problem])
            if goes_on and not await discard(request.stream()):
                refusal.headers["Connection"] = "close"
            raise refusal
        chunks.append(chunk)
    return b"".join(chunks)


async def optional_record(request: Request, kind: type[T], *, field: str, cure: str) -> T:
    """The record of a small JSON body; an empty body is the record with its defaults."""
    body = await limited_body(request, _SMALL_BODY_BYTES, field=field, cure=cure)
    try:
        return msgspec.json.decode(body, type=kind) if body else kind()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid_body(error, body) from None


async def discard(stream: AsyncIterator[bytes]) -> bool:
    """Read and discard the rest, within limits: a client that still sends does not read the response.

    Returns whether the end was reached; if not, the connection has to be closed.
    """
    left = _DISCARD_BYTES
    try:
        async with asyncio.timeout(_DISCARD_SEC):
            async for chunk in stream:
                left -= len(chunk)
                if left < 0:
                    return False
    except TimeoutError:
        return False
    return True
