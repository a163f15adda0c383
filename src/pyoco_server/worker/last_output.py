"""What the worker itself reads of an executor's output: the end of it, and what the executor cannot read."""

import fcntl
import os
import struct
import termios
import time
from collections import deque

from pyoco_server.models import LogLine

_KEPT_CHARS = 4096
# What a pipe holds at most.
_PIPE_BYTES = 64 * 1024


class LastOutput:
    """The last lines of the run under way."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque()
        self._size = 0

    def add(self, lines: list[LogLine]) -> None:
        for line in lines:
            self._lines.append(line.text)
            self._size += len(line.text)
        while self._size - len(self._lines[0] if self._lines else "") > _KEPT_CHARS:
            self._size -= len(self._lines.popleft())

    def clear(self) -> None:
        self._lines.clear()
        self._size = 0

    @property
    def text(self) -> str:
        return "\n".join(self._lines)[-_KEPT_CHARS:].strip()


class OutputPipes:
    """The pipes behind an executor's stdout and stderr; it reads them itself while it lives."""

    def __init__(self) -> None:
        pairs = [os.pipe(), os.pipe()]
        self.read_ends = [pair[0] for pair in pairs]
        self.write_ends = [pair[1] for pair in pairs]

    def close_write_ends(self) -> None:
        for descriptor in self.write_ends:
            os.close(descriptor)
        self.write_ends = []

    def relieve(self, attempt: int) -> list[LogLine]:
        """Make room in a pipe that fills up: a writer that waits for room may be keeping the reader waiting.

        Native code that holds the GIL stops the executor's own reader, and would wait for it for ever.
        """
        found: list[LogLine] = []
        for descriptor, stream in self._streams():
            # A pipe that takes no more may be filled to half only: a write that does not fit into the rest
            # of a page begins another.
            if _waiting_bytes(descriptor) * 2 >= fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ):
                found += _lines_in(descriptor, stream, attempt)
        return found

    def left_over(self, attempt: int) -> list[LogLine]:
        """What a crash has left unread; a grandchild that escaped and still writes is not waited for."""
        return [
            line for descriptor, stream in self._streams() for line in _lines_in(descriptor, stream, attempt)
        ]

    def _streams(self) -> list[tuple[int, str]]:
        return list(zip(self.read_ends, ("stdout", "stderr"), strict=True))

    def close(self) -> None:
        self.close_write_ends()
        for descriptor in self.read_ends:
            os.close(descriptor)
        self.read_ends = []


def _waiting_bytes(descriptor: int) -> int:
    answer = fcntl.ioctl(descriptor, termios.FIONREAD, struct.pack("i", 0))
    return int(struct.unpack("i", answer)[0])


def _lines_in(descriptor: int, stream: str, attempt: int) -> list[LogLine]:
    os.set_blocking(descriptor, False)
    try:
        text = os.read(descriptor, _PIPE_BYTES).decode("utf-8", "replace")
    except BlockingIOError:
        return []
    return [LogLine(ts=time.time(), stream=stream, text=line, attempt=attempt) for line in text.splitlines()]
