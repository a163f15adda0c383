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


class EventReader:
    """Fed with an answer piece by piece; an event that is cut off by the answer's end is none."""

    def __init__(self) -> None:
        self._begun = b""
        self._name = "message"
        self._data: list[str] = []
        self._last_id: str | None = None

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """The events that are whole with this piece."""
        *whole, self._begun = (self._begun + chunk).split(b"\n")
        for line in whole:
            if event := self._take(line.removesuffix(b"\r").decode()):
                yield event

    def _take(self, line: str) -> ServerSentEvent | None:
        if not line:
            name, data = self._name, self._data
            self._name, self._data = "message", []
            return ServerSentEvent(name, "\n".join(data), self._last_id) if data else None
        field, _, value = line.partition(":")  # a comment is a line whose field has no name
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "data":
            self._data.append(value)
        elif field == "id":
            self._last_id = value
        return None


def events_in(chunks: Iterable[bytes]) -> Iterator[ServerSentEvent]:
    """Each whole event of an answer that comes in pieces."""
    reader = EventReader()
    for chunk in chunks:
        yield from reader.feed(chunk)
