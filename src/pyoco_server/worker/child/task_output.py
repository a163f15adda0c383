"""What tasks print, cut into lines that say which task printed them, told while the task runs.

A line is handed over as soon as it is complete: it must not be lost with a process that crashes. A line
that is too long is cut, and a run that prints too much is heard no further; both are told.
"""

import codecs
import io
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from pyoco_server.records.models import LogLine
from pyoco_server.worker.child.log_limits import RunLogLimit, UnfinishedLine
from pyoco_server.worker.engine.json_values import clean
from pyoco_server.worker.engine.task_calls import TaskCall

Tell = Callable[[list[LogLine]], None]

# What is kept of each task's output for its record, from its end.
_TAIL_CHARS = 8192


class TaskOutput:
    """Hears the tasks of one run at a time; what is printed between runs belongs to none."""

    def __init__(self, tell: Tell, *, line_limit: int, run_limit: int) -> None:
        self._tell = tell
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

    def tail_of(self, task: str) -> dict[str, str]:
        """The end of what the task has printed, by stream."""
        if not self._tails:
            return {}
        with self._lock:
            return {stream: clean(text) for (name, stream), text in self._tails.items() if name == task}

    def end_run(self) -> None:
        """Tell what is left: lines without an end, and how many were dropped."""
        with self._lock:
            if self._unfinished:
                self._finish_lines(list(self._unfinished))
            if self._limit.dropped_lines:
                text = f"{self._limit.dropped_lines} lines were dropped in all ({self._limit.setting})"
                self._tell([self._line("note", None, text)])

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
        """Text that Python code of this process printed."""
        task = getattr(self._own, "task", None)
        with self._lock:
            key = (task or self.only_task, stream)
            lines = self._bounded(self._add(key, text))
            if lines:
                self._tell(lines)

    def write_unowned(self, stream: str, text: str, report: Tell) -> None:
        """Text that came through the file descriptor: a task's subprocess or library printed it.

        `report` gets the lines that it completes, and is called even if there are none.
        """
        with self._lock:
            key = (self.only_task, stream)
            lines = self._bounded(self._add(key, text))
            if (unfinished := self._unfinished.get(key)) is not None:
                unfinished.from_descriptor = True
            report(lines)

    def note(self, task: str, text: str) -> None:
        """A line of ours about the task."""
        with self._lock:
            if lines := self._bounded([self._line("note", task, text)]):
                self._tell(lines)

    def unfinished(self) -> list[LogLine]:
        """The beginnings of lines that came through a descriptor, at least in part."""
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
        """The task that executes now, if there is just one."""
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
        if told := self._bounded(lines):
            self._tell(told)

    def _bounded(self, lines: list[LogLine]) -> list[LogLine]:
        return self._limit.bounded(lines, lambda text: self._line("note", None, text))

    def _line(self, stream: str, task: str | None, text: str) -> LogLine:
        return LogLine(ts=time.time(), stream=stream, text=clean(text), task=task, attempt=self._attempt)


class OutputStream(io.TextIOBase):
    """A `sys.stdout` or `sys.stderr` that a TaskOutput hears."""

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
        # Our locks and the link to the worker are the parent's; the descriptor is heard by it.
        self._in_forked_child = True

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        if self._descriptor is None:
            raise io.UnsupportedOperation("fileno")
        return self._descriptor

    def reconfigure(self, **_: Any) -> None:
        """As of a real one; there is nothing to configure."""


class _Decoding(threading.local):
    """Each thread's own: between the two halves of a character, another thread may write."""

    def __init__(self) -> None:
        self.decode = codecs.getincrementaldecoder("utf-8")("replace").decode


class _BinaryStream(io.RawIOBase):
    """The bytes under an OutputStream, for code that writes to `sys.stdout.buffer`."""

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
