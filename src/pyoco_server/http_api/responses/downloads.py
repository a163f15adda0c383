"""Responses with the bytes of a stored file: whole, a range of them, or only their headers."""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from pyoco_server.errors import NatsUnavailable
from pyoco_server.http_api.requests.byte_ranges import ByteRange, requested_range

log = logging.getLogger(__name__)

_ASCII: Final = frozenset(map(chr, range(0x20, 0x7F))) - {'"', "\\"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    # For logs.
    name: str
    size: int
    media_type: str
    # Another one for each content.
    etag: str
    # The bytes from `start` up to `stop`.
    read: Callable[[int, int], AsyncGenerator[bytes, None]]
    headers: Mapping[str, str] = field(default_factory=dict)


class _Download(StreamingResponse):
    """An error after the first byte can only be reported by closing the connection."""

    def __init__(
        self, file: StoredFile, content: AsyncGenerator[bytes, None], status: int, headers: dict[str, str]
    ) -> None:
        super().__init__(content, status, headers)
        self._name = file.name

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except NatsUnavailable as error:
            # The connection closes before the announced length, so that the client notices.
            log.warning("the download of %s was cut off: %s", self._name, error)


async def download(request: Request, file: StoredFile) -> Response:
    """What the request asks for: with `Range`, `If-Range` and `If-None-Match`, and for HEAD."""
    etag = f'"{file.etag}"'
    headers = {**file.headers, "Accept-Ranges": "bytes", "ETag": etag}
    if etag in _listed(request.headers.get("if-none-match")):
        return Response(None, HTTPStatus.NOT_MODIFIED, headers)
    part = None
    if request.headers.get("if-range") in (None, etag):
        part = requested_range(request.headers.get("range"), file.size)
    if part is not None:
        headers["Content-Range"] = part.content_range(file.size)
    part, status = part or ByteRange(0, file.size), 200 if part is None else 206
    # Not as `media_type`, to which Starlette would add a charset.
    headers |= {"Content-Length": str(part.size), "Content-Type": file.media_type}
    if request.method == "HEAD" or not part.size:
        return Response(None, status, headers)
    content = file.read(part.start, part.stop)
    # Read before the response starts: until then an error can still be an error response.
    first = await anext(content, b"")
    return _Download(file, _preceded_by(first, content), status, headers)


def attachment(file_name: str) -> str:
    """The value of `Content-Disposition` that has a browser save the file under this name."""
    simple = "".join(char if char in _ASCII else "_" for char in file_name)
    exact = "" if simple == file_name else f"; filename*=UTF-8''{quote(file_name, safe='')}"
    return f'attachment; filename="{simple}"{exact}'


def _listed(header: str | None) -> list[str]:
    return [each.strip().removeprefix("W/") for each in (header or "").split(",")]


async def _preceded_by(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(rest):
        yield first
        async for block in rest:
            yield block
