"""Reading server-sent events.

Lines end at line feeds only. `str.splitlines` also splits at characters such as U+2028, which JSON may have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

MEDIA_TYPE: Final = "text/event-stream"
# A gateway sends something every 5 seconds, an older one every 15; a longer silence is a lost connection.
SILENCE_LIMIT_SEC: Final = 45.0


@dataclass(frozen=True)
class ServerSentEvent:
    name: str
    data: str
    # The newest id in the stream so far.
    id: str | None


class EventReader:
    """Parses a response chunk by chunk. An incomplete event at its end is dropped."""

    def __init__(self) -> None:
        self._partial = b""
        self._name = "message"
        self._data: list[str] = []
        self._last_id: str | None = None

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """The events that are complete with this chunk."""
        *complete, self._partial = (self._partial + chunk).split(b"\n")
        for line in complete:
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
    """Each complete event of a response."""
    reader = EventReader()
    for chunk in chunks:
        yield from reader.feed(chunk)
