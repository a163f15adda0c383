"""Reading server-sent events: from the bytes of an answer to its events.

Lines are split at line feeds only. What libraries call a line also ends at characters such as U+2028, which
JSON leaves as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

MEDIA_TYPE: Final = "text/event-stream"
# A gateway says something at least every 15 seconds; who hears nothing for much longer has lost it.
SILENCE_LIMIT_SEC: Final = 45.0


@dataclass(frozen=True)
class ServerSentEvent:
    name: str
    data: str
    # The newest id that the stream had told by then.
    id: str | None


def events_in(chunks: Iterable[bytes]) -> Iterator[ServerSentEvent]:
    """Each whole event; one that is cut off by the end of the answer is none."""
    name, data, last_id = "message", list[str](), None
    for line in _lines_in(chunks):
        if not line:
            if data:
                yield ServerSentEvent(name, "\n".join(data), last_id)
            name, data = "message", []
            continue
        field, _, value = line.partition(":")  # a comment is a line whose field has no name
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif field == "id":
            last_id = value


def _lines_in(chunks: Iterable[bytes]) -> Iterator[str]:
    begun = b""
    for chunk in chunks:
        *whole, begun = (begun + chunk).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r").decode()
