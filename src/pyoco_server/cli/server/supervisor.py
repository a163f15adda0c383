"""A supervised child process: restarted when it exits, stopped when its parent is gone."""

import asyncio
import contextlib
import json
import os
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyoco_server.broker.embedded.embedded_server import stop_process
from pyoco_server.broker.embedded.server_guard import guarded_command
from pyoco_server.cli.entry import CommandFailed
from pyoco_server.cli.options.time_formats import interval

Facts = dict[str, Any]

_MIN_BACKOFF_SEC: Final = 0.5
_MAX_BACKOFF_SEC: Final = 15.0
# A process that ran this long did not fail at its start: the backoff is reset.
_SETTLED_SEC: Final = 10.0
# How long the guard lets an orphaned process run: its NATS is stopping as well.
_ORPHAN_GRACE_SEC: Final = 5.0
_CHUNK_BYTES: Final = 65536


class ChildFailed(CommandFailed):
    """The process exited before it was ready."""


@dataclass(slots=True)
class _Running:
    process: Process
    lifeline: int  # closed by us or by our exit, it stops the process: see server_guard
    ready: asyncio.StreamReader
    ready_pipe: asyncio.ReadTransport
    output: asyncio.Task[None]
    started: float


class Child:
    """One process. `on_event` gets a sentence about it, `on_line` each line of its output."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environ: Mapping[str, str],
        log_path: Path,
        on_event: Callable[[str], None],
        on_line: Callable[[str, str], None],
        folder: Path | None = None,
    ) -> None:
        """`folder` is its working directory; without it, that of this process."""
        self.name = name
        self._folder = folder
        self._command = list(command)
        self._environ = dict(environ)
        self._log_path = log_path
        self._on_event = on_event
        self._on_line = on_line
        self._running: _Running | None = None
        # Whether the last output could not be written to its file.
        self._log_failed = False
        self._supervision: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._running is None else self._running.process.pid

    async def start(self) -> None:
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        if self._log_path.exists():
            self._log_path.replace(self._log_path.with_name(f"{self._log_path.name}.1"))
        self._running = await self._launch()

    async def ready(self) -> Facts:
        """What it reports when it is ready; from then on it is restarted. ChildFailed when it exits first."""
        assert self._running is not None, "start it first"
        facts = await self._facts_of(self._running)
        self._supervision = asyncio.create_task(self._supervise(), name=f"supervise-{self.name}")
        return facts

    async def stop(self, timeout_sec: float) -> None:
        """Terminate it, and kill it after `timeout_sec`."""
        if self._supervision is not None:
            self._supervision.cancel()
            await asyncio.wait([self._supervision])
        running, self._running = self._running, None
        if running is None:
            return
        if not await stop_process(running.process, timeout_sec):
            self._on_event(f"The {self.name} did not stop within {interval(timeout_sec)} and was killed.")
        await self._reap(running)

    async def _supervise(self) -> None:
        backoff = _MIN_BACKOFF_SEC
        while True:
            running = self._running
            assert running is not None
            code = await running.process.wait()
            self._running = None
            await self._reap(running)
            if time.monotonic() - running.started > _SETTLED_SEC:
                backoff = _MIN_BACKOFF_SEC
            self._on_event(
                f"The {self.name} stopped ({_exit_text(code)}); restarting in {interval(backoff)}."
            )
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, _MAX_BACKOFF_SEC)
            self._running = await self._relaunch()
            with contextlib.suppress(ChildFailed):  # it exited again, which the next iteration reports
                await self._facts_of(self._running)
                self._on_event(f"The {self.name} is running again.")

    async def _relaunch(self) -> _Running:
        while True:
            try:
                return await self._launch()
            except OSError as error:  # such as too many processes, or no memory left
                self._on_event(f"The {self.name} cannot be started: {error}.")
                await asyncio.sleep(_MAX_BACKOFF_SEC)

    async def _launch(self) -> _Running:
        guard_end, lifeline = os.pipe()
        ready_reader, ready_writer = os.pipe()
        try:
            ready, ready_pipe = await _reader_of(ready_reader)
            process = await asyncio.create_subprocess_exec(
                *guarded_command(
                    [*self._command, "--ready-fd", str(ready_writer)],
                    lifeline=guard_end,
                    kept=[ready_writer],
                    grace_sec=_ORPHAN_GRACE_SEC,
                ),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=STDOUT,
                env=self._environ,
                cwd=self._folder,
                pass_fds=(guard_end, ready_writer),
                start_new_session=True,  # Ctrl-C must reach the parent only: it stops everything in order
            )
        except BaseException:
            os.close(lifeline)
            raise
        finally:
            os.close(guard_end)
            os.close(ready_writer)
        output = asyncio.create_task(self._read_output(process), name=f"output-{self.name}")
        return _Running(process, lifeline, ready, ready_pipe, output, time.monotonic())

    async def _facts_of(self, running: _Running) -> Facts:
        line = await running.ready.readline()
        if not line:
            code = await running.process.wait()
            await running.output
            where = f"its output is above and in {self._log_path}"
            raise ChildFailed(f"The {self.name} could not start ({_exit_text(code)}); {where}.")
        facts: Facts = json.loads(line)
        return facts

    async def _read_output(self, process: Process) -> None:
        assert process.stdout is not None
        rest = b""
        self._write([])
        while chunk := await process.stdout.read(_CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            self._write(lines)
        if rest:
            self._write([rest])

    def _write(self, lines: Sequence[bytes]) -> None:
        """Without a log file if it cannot be written: a process whose output is not read would block."""
        for line in lines:
            self._on_line(self.name, line.decode(errors="replace"))
        try:
            with self._log_path.open("ab", buffering=0) as log:
                log.write(b"".join(line + b"\n" for line in lines))
        except OSError as error:
            if not self._log_failed:
                self._on_event(f"The output of the {self.name} is not written to {self._log_path}: {error}.")
            self._log_failed = True
        else:
            self._log_failed = False

    async def _reap(self, running: _Running) -> None:
        """Release the resources of a process that has exited."""
        await running.process.wait()
        await running.output
        running.ready_pipe.close()
        os.close(running.lifeline)


async def _reader_of(descriptor: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
    )
    return reader, transport


def _exit_text(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
