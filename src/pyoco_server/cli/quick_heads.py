"""The head of an answer, written without looking at the same headers again.

uvicorn puts every header of every answer through two regular expressions, and nearly all of ours are the
same each time. Here a header is looked at when it comes for the first time, and its line is remembered.
Whatever is not plain is left to uvicorn: an answer without a length, a header about the connection, one that
is no header.
"""

from collections.abc import Awaitable, Generator, Iterable
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    RequestResponseCycle,
)

Header = tuple[bytes, bytes]

_LENGTH: Final = b"content-length"
# Those that say how uvicorn has to send what follows.
_NOT_PLAIN: Final = frozenset({b"transfer-encoding", b"connection"})
# A header that differs each time, such as an address, must not fill the memory.
_MOST_LINES: Final = 1000
_lines: Final[dict[Header, bytes]] = {}


class _Done:
    """What there is to wait for when all is done."""

    def __await__(self) -> Generator[None]:
        return
        yield


_DONE: Final = _Done()


class QuickCycle(RequestResponseCycle):
    """One request and its answer. uvicorn makes them of its own class: see `hasten`."""

    def send(self, message: Any) -> Awaitable[None]:  # type: ignore[override]
        if self.response_started or self.disconnected or self.access_log or self.flow.write_paused:
            return super().send(message)
        if message["type"] != "http.response.start" or self.default_headers:
            return super().send(message)
        found = _head_of(message["status"], message.get("headers", ()), closes=not self.keep_alive)
        if found is None:
            return super().send(message)
        head, length = found
        # What uvicorn's own `send` leaves behind for the body.
        self.response_started = True
        self.waiting_for_100_continue = False
        self.expected_content_length = length
        self.chunked_encoding = False
        self.transport.write(head)
        return _DONE


def hasten(cycle: RequestResponseCycle) -> None:
    """Have its head written here. It has no state but uvicorn's own, and so can change its class."""
    cycle.__class__ = QuickCycle


def _head_of(status: int, headers: Iterable[Header], *, closes: bool) -> tuple[bytes, int] | None:
    """The bytes, and how long the body is; None when uvicorn has to see to it."""
    lines, length = [STATUS_LINE[status]], None
    for header in headers:
        line = _lines.get(header)
        if line is None:
            name, value = header
            if name == _LENGTH and value.isdigit() and length is None:
                length = int(value)
                line = b"content-length: %d\r\n" % length
            else:
                line = _line_of(header)
        if line is None:
            return None
        lines.append(line)
    if length is None:
        return None
    lines.append(b"connection: close\r\n\r\n" if closes else b"\r\n")
    return b"".join(lines), length


def _line_of(header: Header) -> bytes | None:
    name, value = header[0].lower(), header[1]
    is_plain = name not in _NOT_PLAIN and name != _LENGTH
    if not is_plain or HEADER_RE.search(name) or HEADER_VALUE_RE.search(value):
        return None
    line = b"%s: %s\r\n" % (name, value)
    if len(_lines) < _MOST_LINES:
        _lines[header] = line
    return line
