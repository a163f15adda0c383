"""Responses with the bytes of a stored object: whole, or the range that was requested."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from pyoco_server.broker.stores.runs.run_object_store import RunObjectGone
from pyoco_server.errors import NatsUnavailable
from pyoco_server.http_api.requests.byte_ranges import ByteRange, requested_range

log = logging.getLogger(__name__)

# What a name may have in this header without being encoded.
_SIMPLE: Final = frozenset(map(chr, range(0x20, 0x7F))) - {'"', "\\"}
# The bytes from a start up to a stop.
ReadRange = Callable[[int, int], AsyncIterator[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    # For the log.
    name: str
    size: int
    # Without its quotes. It changes with the bytes.
    etag: str
    media_type: str
    read: ReadRange
    headers: Mapping[str, str] = field(default_factory=dict)


async def download_response(request: Request, download: Download) -> Response:
    """The response to a GET or HEAD, with `Range`, `If-Range` and `If-None-Match`."""
    etag = f'"{download.etag}"'
    headers = {**download.headers, "Accept-Ranges": "bytes", "ETag": etag}
    if _names(request.headers.get("if-none-match"), etag):
        return Response(None, 304, headers)
    part = None
    if request.headers.get("if-range") in (None, etag):
        part = requested_range(request.headers.get("range"), download.size)
    if part is not None:
        headers["Content-Range"] = part.content_range(download.size)
    part, status = part or ByteRange(0, download.size), 200 if part is None else 206
    headers["Content-Length"] = str(part.size)
    if request.method == "HEAD":
        return Response(None, status, headers, media_type=download.media_type)
    content = _bounded(download.read(part.start, part.stop), part.size)
    # Read before the response starts: until then an error can still be an error response.
    first = await anext(content, b"")
    return _Streamed(download, _preceded_by(first, content), status, headers)


def attachment(file_name: str) -> str:
    """The value of `Content-Disposition` that has a browser save the file under this name."""
    simple = "".join(char if char in _SIMPLE else "_" for char in file_name)
    exact = "" if simple == file_name else f"; filename*=UTF-8''{quote(file_name, safe='')}"
    return f'attachment; filename="{simple}"{exact}'


class _Streamed(StreamingResponse):
    """An error after the first byte can only be reported by closing the connection."""

    def __init__(
        self, download: Download, content: AsyncGenerator[bytes, None], status: int, headers: dict[str, str]
    ) -> None:
        super().__init__(content, status, headers, media_type=download.media_type)
        self._name = download.name

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except (NatsUnavailable, RunObjectGone) as error:
            # The connection closes before the announced length, so that the client notices.
            log.warning("the download of %s was cut off: %s", self._name, error)


def _names(header: str | None, etag: str) -> bool:
    """Whether `If-None-Match` names what the client would get."""
    if header is None:
        return False
    known = [each.strip().removeprefix("W/") for each in header.split(",")]
    return etag in known or known == ["*"]


async def _bounded(blocks: AsyncIterator[bytes], size: int) -> AsyncGenerator[bytes, None]:
    """Never more than the announced length."""
    async for block in blocks:
        yield block[:size]
        size -= len(block)
        if size <= 0:
            return


async def _preceded_by(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(rest):
        yield first
        async for block in rest:
            yield block
