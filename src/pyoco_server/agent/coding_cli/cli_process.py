"""One execution of a program: its output line by line, its time limit, and the end of all its processes."""

import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final
from uuid import uuid4

from pyoco_server.agent.coding_cli.cli_lock import take_over
from pyoco_server.agent.coding_cli.fenced_block import MAX_BLOCK_CHARS, FencedBlock
from pyoco_server.agent.file_lock import FileLock
from pyoco_server.aio.marked_processes import MARK_VARIABLE, kill_marked

TAIL_LINES: Final = 200
# A program that prints more than this is ended.
MAX_OUTPUT_BYTES: Final = 512 * 1024 * 1024
_STDOUT_TAIL_BYTES: Final = 4 * 1024 * 1024
_TAIL_LINE_CHARS: Final = 2000
_READ_BYTES: Final = 64 * 1024
_POLL_SEC: Final = 0.1
# How long a program may take to end after SIGTERM.
_TERM_SEC: Final = 5.0
# How long the output of an ended program is read, which a process of it may keep open.
_DRAIN_SEC: Final = 2.0


@dataclass(slots=True)
class ProcessResult:
    # Negative: the number of the signal that ended it.
    exit_code: int = 0
    timed_out: bool = False
    cancelled: bool = False
    printed_too_much: bool = False
    # The last lines of both streams, for the next prompt and for errors.
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    block: FencedBlock = field(default_factory=FencedBlock)
    # The end of standard output.
    stdout_tail: str = ""

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0 and not (self.timed_out or self.cancelled or self.printed_too_much)

    def outcome(self, timeout_sec: float) -> str:
        """How it ended, for logs and errors."""
        if self.timed_out:
            return f"ended after its time limit of {timeout_sec:g} s"
        if self.printed_too_much:
            return f"ended after {MAX_OUTPUT_BYTES // 2**20} MiB of output"
        if self.exit_code < 0:
            return f"ended by signal {-self.exit_code}"
        return f"exited with code {self.exit_code}"


def execute(
    argv: Sequence[str],
    *,
    program: str,
    folder: Path,
    environment: Mapping[str, str],
    timeout_sec: float,
    on_line: Callable[[str], None],
    is_cancelled: Callable[[], bool],
    lock: FileLock,
) -> ProcessResult:
    """Execute a program in a group of its own; when this returns, none of its processes lives.

    `lock` is a lock that nobody holds; the program inherits it.
    """
    take_over(lock, is_cancelled)
    # Begins with the executor's own, by which the worker finds it if the executor is killed.
    mark = f"{environment.get(MARK_VARIABLE, '')}-{uuid4().hex}"
    try:
        process = subprocess.Popen(
            list(argv),
            executable=program,
            cwd=folder,
            env={**environment, MARK_VARIABLE: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=(lock.descriptor,),
        )
    finally:
        # From now on the program alone holds it.
        lock.release()
    try:
        return _Execution(process, on_line, timeout_sec, is_cancelled).follow()
    finally:
        _end(process)
        # Those that have left the group have the mark, or hold the lock.
        _end_marked(mark)
        take_over(lock)
        lock.release()


class _Execution:
    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        on_line: Callable[[str], None],
        timeout_sec: float,
        is_cancelled: Callable[[], bool],
    ) -> None:
        self._process = process
        self._on_line = on_line
        self._deadline = time.monotonic() + timeout_sec
        self._is_cancelled = is_cancelled
        self._kill_at: float | None = None
        self._read = 0
        self._stdout = bytearray()
        self.result = ProcessResult()

    def follow(self) -> ProcessResult:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        with selectors.DefaultSelector() as selector:
            for stream in (self._process.stdout, self._process.stderr):
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ, _Lines(self, stream is self._process.stdout))
            drain_until: float | None = None
            while selector.get_map():
                for key, _ in selector.select(_POLL_SEC):
                    if not self._feed(key.fileobj, key.data):  # type: ignore[arg-type]
                        selector.unregister(key.fileobj)
                self._enforce()
                if drain_until is None and _has_exited(self._process):
                    # Its children may keep the pipes open.
                    _signal_group(self._process.pid, signal.SIGKILL)
                    drain_until = time.monotonic() + _DRAIN_SEC
                if drain_until is not None and time.monotonic() > drain_until:
                    break
            for key in list(selector.get_map().values()):
                key.data.finish()
        self._wait()
        self.result.stdout_tail = self._stdout.decode(errors="backslashreplace")
        return self.result

    def _wait(self) -> None:
        """A program may close its output long before it exits."""
        while not _has_exited(self._process):
            self._enforce()
            time.sleep(_POLL_SEC)
        _signal_group(self._process.pid, signal.SIGKILL)
        self.result.exit_code = self._process.wait()

    def _feed(self, stream: IO[bytes], lines: "_Lines") -> bool:
        try:
            data = os.read(stream.fileno(), _READ_BYTES)
        except BlockingIOError:
            return True
        if not data:
            lines.finish()
            return False
        self._read += len(data)
        if lines.is_stdout:
            self._stdout += data
            del self._stdout[: max(0, len(self._stdout) - _STDOUT_TAIL_BYTES)]
        lines.feed(data)
        return True

    def _enforce(self) -> None:
        """Ask it to end at its limits, and end it if it does not."""
        now = time.monotonic()
        if self._kill_at is None:
            self.result.cancelled = self._is_cancelled()
            self.result.timed_out = not self.result.cancelled and now > self._deadline
            self.result.printed_too_much = self._read > MAX_OUTPUT_BYTES
            if self.result.cancelled or self.result.timed_out or self.result.printed_too_much:
                _signal_group(self._process.pid, signal.SIGTERM)
                self._kill_at = now + _TERM_SEC
        elif now > self._kill_at:
            _signal_group(self._process.pid, signal.SIGKILL)

    def add(self, line: str, *, is_stdout: bool) -> None:
        if is_stdout:
            self.result.block.feed(line)
        self.result.tail.append(line[:_TAIL_LINE_CHARS])
        self._on_line(line)


class _Lines:
    """Splits one stream into lines of a bounded length."""

    def __init__(self, execution: _Execution, is_stdout: bool) -> None:
        self._execution = execution
        self.is_stdout = is_stdout
        self._rest = bytearray()

    def feed(self, data: bytes) -> None:
        self._rest += data
        *complete, rest = self._rest.split(b"\n")
        for line in complete:
            self._add(line)
        self._rest = rest
        while len(self._rest) > MAX_BLOCK_CHARS:
            self._add(self._rest[:MAX_BLOCK_CHARS])
            del self._rest[:MAX_BLOCK_CHARS]

    def finish(self) -> None:
        if self._rest:
            self._add(self._rest)
            self._rest = bytearray()

    def _add(self, line: bytearray) -> None:
        self._execution.add(line.decode(errors="backslashreplace").rstrip("\r"), is_stdout=self.is_stdout)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End it if it still lives: an exception has interrupted the caller."""
    if process.returncode is None:
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _end_marked(mark: str) -> None:
    """Kill them, and wait until they are gone; one of another user cannot be killed."""
    deadline = time.monotonic() + _TERM_SEC
    while kill_marked(mark) and time.monotonic() < deadline:
        time.sleep(_POLL_SEC)


def _has_exited(process: "subprocess.Popen[bytes]") -> bool:
    """Without collecting its exit code: until then its group id belongs to no other process."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
