"""Splits the output of tasks into lines, each with its task.

A complete line is reported at once, since a crash must not lose it. Lines that are too long are cut, and
lines above the limit of a run are dropped; the log says so.
"""

import codecs
import io
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.worker.engine.journal.json_values import escape_surrogates
from pyoco_server.worker.engine.tasks.task_calls import TaskCall

Report = Callable[[list[LogLine]], None]

# The end of each task's output, for its record.
_TAIL_CHARS = 8192
# Empty lines count too.
_LINE_END = 1


def _utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _beginning(text: str, size: int) -> str:
    """The characters that fit into this many bytes; half a character does not."""
    return text[:size] if text.isascii() else text.encode()[:size].decode("utf-8", "ignore")


class UnfinishedLine:
    """An incomplete line. After a carriage return it is what a terminal would show."""

    __slots__ = ("_dropped", "_returned_to_start", "_size", "_text", "from_descriptor")

    def __init__(self) -> None:
        self.from_descriptor = False
        self._text = ""
        self._size = 0
        self._dropped = 0
        self._returned_to_start = False

    def add(self, text: str, limit: int) -> None:
        """`limit` is that of the whole line, in bytes."""
        # The text stays until something overwrites it: a "\r" may be the first half of a line end.
        visible = text.rstrip("\r")
        if visible:
            _, carriage_return, rest = visible.rpartition("\r")
            if carriage_return or self._returned_to_start:
                self._text, self._size, self._dropped = "", 0, 0
            room = limit - self._size
            shown = escape_surrogates(rest[:room])
            # After a character that did not fit, a shorter one would be out of its place.
            kept = "" if self._dropped else _beginning(shown, room)
            self._text += kept
            self._size += _utf8_size(kept)
            self._dropped += len(rest[room:]) + len(shown) - len(kept)
            self._returned_to_start = False
        self._returned_to_start |= len(visible) < len(text)

    def line(self) -> str:
        return f"{self._text} ... ({self._dropped} more characters)" if self._dropped else self._text


class RunLogLimit:
    """Counts the output of the current run, and drops lines above the limit."""

    def __init__(self, run_limit: int) -> None:
        self._run_limit = run_limit
        self.begin_run()

    def begin_run(self) -> None:
        self._bytes_left = self._run_limit
        self.dropped_lines = 0

    def count(self, lines: list[LogLine]) -> None:
        for line in lines:
            self._bytes_left -= _utf8_size(line.text) + _LINE_END

    def bounded(self, lines: list[LogLine], note: Callable[[str], LogLine]) -> list[LogLine]:
        """The lines that are within the limit, with a note where it is reached."""
        kept: list[LogLine] = []
        for line in lines:
            if self._bytes_left > 0:
                self._bytes_left -= _utf8_size(line.text) + _LINE_END
                kept.append(line)
            else:
                self.dropped_lines += 1
                if self.dropped_lines == 1:
                    kept.append(note(f"more than {self.setting} was printed; the rest is dropped"))
        return kept

    @property
    def setting(self) -> str:
        return f"PYOCO_RUN_LOG_RUN_MAX_BYTES={self._run_limit}"


class TaskOutput:
    """The output of one run at a time; text that is printed between runs has no task."""

    def __init__(self, report: Report, *, line_limit: int, run_limit: int) -> None:
        self._report = report
        self._line_limit = line_limit
        self._limit = RunLogLimit(run_limit)
        self._lock = threading.RLock()
        self._own = threading.local()
        self._running: list[str] = []
        self._unfinished: dict[tuple[str | None, str], UnfinishedLine] = {}
        self._tails: dict[tuple[str | None, str], str] = {}
        self._attempt = 1

    def begin_run(self, attempt: int) -> None:
        with self._lock:
            self._attempt = attempt
            self._limit.begin_run()
            self._tails.clear()

    def output_tail(self, task: str) -> dict[str, str]:
        """The end of the task's output, by stream."""
        if not self._tails:
            return {}
        with self._lock:
            return {
                stream: escape_surrogates(text)
                for (name, stream), text in self._tails.items()
                if name == task
            }

    def end_run(self) -> None:
        """Report incomplete lines, and how many lines were dropped."""
        with self._lock:
            if self._unfinished:
                self._finish_lines(list(self._unfinished))
            if self._limit.dropped_lines:
                text = f"{self._limit.dropped_lines} lines were dropped in all ({self._limit.setting})"
                self._report([self._line("note", None, text)])

    def began(self, call: TaskCall) -> None:
        self._own.task = call.task.name
        with self._lock:
            self._running.append(call.task.name)

    def ended(self, call: TaskCall) -> None:
        name = call.task.name
        self._own.task = None
        with self._lock:
            if self._unfinished:
                self._finish_lines([each for each in self._unfinished if each[0] == name])
            self._running.remove(name)

    def write(self, stream: str, text: str) -> None:
        """Text from Python code of this process."""
        task = getattr(self._own, "task", None)
        with self._lock:
            key = (task or self.only_task, stream)
            lines = self._bounded(self._add(key, text))
            if lines:
                self._report(lines)

    def write_unowned(self, stream: str, text: str, report: Report) -> None:
        """Text from the file descriptor: of a subprocess or a native library.

        `report` gets the lines that it completes, and is called even if there are none.
        """
        with self._lock:
            key = (self.only_task, stream)
            lines = self._bounded(self._add(key, text))
            if (unfinished := self._unfinished.get(key)) is not None:
                unfinished.from_descriptor = True
            report(lines)

    def note(self, task: str, text: str) -> None:
        with self._lock:
            if lines := self._bounded([self._line("note", task, text)]):
                self._report(lines)

    def unfinished(self) -> list[LogLine]:
        """Incomplete lines that came through a descriptor, at least in part."""
        if not self._unfinished:
            return []
        with self._lock:
            return [
                self._line(stream, task, beginning.line())
                for (task, stream), beginning in self._unfinished.items()
                if beginning.from_descriptor
            ]

    @property
    def only_task(self) -> str | None:
        with self._lock:
            return self._running[0] if len(self._running) == 1 else None

    def _add(self, key: tuple[str | None, str], text: str) -> list[LogLine]:
        """The lines that the text completes."""
        task, stream = key
        self._tails[key] = (self._tails.get(key, "") + text)[-_TAIL_CHARS:]
        *complete, rest = text.split("\n")
        lines: list[LogLine] = []
        for part in complete:
            unfinished = self._unfinished.pop(key, None) or UnfinishedLine()
            unfinished.add(part, self._line_limit)
            lines.append(self._line(stream, task, unfinished.line()))
        if rest:
            self._unfinished.setdefault(key, UnfinishedLine()).add(rest, self._line_limit)
        return lines

    def _finish_lines(self, keys: Iterable[tuple[str | None, str]]) -> None:
        lines = [self._line(key[1], key[0], self._unfinished.pop(key).line()) for key in keys]
        if kept := self._bounded(lines):
            self._report(kept)

    def _bounded(self, lines: list[LogLine]) -> list[LogLine]:
        return self._limit.bounded(lines, lambda text: self._line("note", None, text))

    def _line(self, stream: str, task: str | None, text: str) -> LogLine:
        return LogLine(
            ts=time.time(), stream=stream, text=escape_surrogates(text), task=task, attempt=self._attempt
        )


class OutputStream(io.TextIOBase):
    """A `sys.stdout` or `sys.stderr` that writes to a TaskOutput."""

    def __init__(self, output: TaskOutput, name: str, descriptor: int | None = None) -> None:
        self._output = output
        self._name = name
        self._descriptor = descriptor
        self._binary = _BinaryStream(self)
        self._in_forked_child = False
        if descriptor is not None:
            os.register_at_fork(after_in_child=self._after_fork)

    @property
    def name(self) -> str:
        return f"<{self._name}>"

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        return "replace"

    @property
    def buffer(self) -> "_BinaryStream":
        return self._binary

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self._in_forked_child:
            assert self._descriptor is not None
            os.write(self._descriptor, text.encode("utf-8", "replace"))
        elif text:
            self._output.write(self._name, text)
        return len(text)

    def _after_fork(self) -> None:
        # The locks and the link belong to the parent, which also reads the descriptor.
        self._in_forked_child = True

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        if self._descriptor is None:
            raise io.UnsupportedOperation("fileno")
        return self._descriptor

    def reconfigure(self, **_: Any) -> None:
        """Accepted as for a real stream; there is nothing to configure."""


class _Decoding(threading.local):
    """Per thread: another thread may write between the two halves of a character."""

    def __init__(self) -> None:
        self.decode = codecs.getincrementaldecoder("utf-8")("replace").decode


class _BinaryStream(io.RawIOBase):
    def __init__(self, text: OutputStream) -> None:
        self._text = text
        self._decoding = _Decoding()

    def write(self, data: Any) -> int:
        content = bytes(data)
        self._text.write(self._decoding.decode(content))
        return len(content)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._text.fileno()
