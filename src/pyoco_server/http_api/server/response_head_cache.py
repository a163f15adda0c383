"""uvicorn's answers, with heads that are put into bytes once.

uvicorn looks through each header of each answer, which takes longer than all else that it does about a short
one; and most answers of a second have the same head. Where a head says anything that uvicorn has to act upon,
other than how long the body is, it is uvicorn's to write.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    RequestResponseCycle,
)

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

# The date is in all of them: those of the last seconds are enough.
_MOST_KNOWN: Final = 256
_LENGTH: Final = b"content-length"
_ACTED_UPON: Final = frozenset({b"connection", b"transfer-encoding"})


class KnownHeads(RequestResponseCycle):
    """One request and its answer."""

    async def send(self, message: "ASGISendEvent") -> None:
        if message["type"] == "http.response.start" and self._may_begin:
            known = _known(message["status"], (*self.default_headers, *message.get("headers", ())))
            if known is not None:
                head, self.expected_content_length = known
                self.response_started, self.chunked_encoding = True, False
                self.waiting_for_100_continue = False
                self.transport.write(head)
                return
        await super().send(message)

    @property
    def _may_begin(self) -> bool:
        """Whether the head is all there is to say now, and can be said at once."""
        return (
            self.keep_alive
            and not self.response_started
            and not self.disconnected
            and not self.flow.write_paused
            and not self.access_log
        )


@lru_cache(_MOST_KNOWN)
def _known(status: int, headers: tuple[tuple[bytes, bytes], ...]) -> tuple[bytes, int] | None:
    """A head as uvicorn would write it, and the length of the body; None when it is not for us."""
    lengths = [int(value) for name, value in headers if name.lower() == _LENGTH]
    if len(lengths) != 1:
        return None
    lines = [STATUS_LINE[status]]
    for name, value in headers:
        if name.lower() in _ACTED_UPON or HEADER_RE.search(name) or HEADER_VALUE_RE.search(value):
            return None
        lines.append(b"%b: %b\r\n" % (name.lower(), value))
    return b"".join([*lines, b"\r\n"]), lengths[0]
