"""A program of ours that is kept running: started again when it ends by itself, ended when we are gone."""

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
from typing import Any, BinaryIO, Final

from pyoco_server.broker.embedded.embedded_server import stop_process
from pyoco_server.broker.embedded.server_guard import guarded_command
from pyoco_server.cli.exit_codes import CommandFailed

Facts = dict[str, Any]

_FIRST_PAUSE_SEC: Final = 0.5
_LONGEST_PAUSE_SEC: Final = 15.0
# Who lived this long does not fail at its start: the next pause is short again.
_SETTLED_SEC: Final = 10.0
# After our own death a guard gives the program this long to end; NATS is going down as well.
_ORPHAN_GRACE_SEC: Final = 5.0
_CHUNK_BYTES: Final = 65536


class ChildFailed(CommandFailed):
    """The program ended before it was ready."""


@dataclass(slots=True)
class _Running:
    process: Process
    lifeline: int  # closing it, or our own end, ends the program: see broker.embedded.server_guard
    ready: asyncio.StreamReader
    output: asyncio.Task[None]
    started: float


class Child:
    """One supervised program. `say` gets what happens to it, `on_line` each line that it writes."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environ: Mapping[str, str],
        log_path: Path,
        say: Callable[[str], None],
        on_line: Callable[[str, str], None],
    ) -> None:
        self.name = name
        self._command = list(command)
        self._environ = dict(environ)
        self._log_path = log_path
        self._say = say
        self._on_line = on_line
        self._running: _Running | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._running is None else self._running.process.pid

    async def start(self) -> None:
        """Start it; `ready` tells when it can be used."""
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        if self._log_path.exists():
            self._log_path.replace(self._log_path.with_name(f"{self._log_path.name}.1"))
        self._running = await self._launch()

    async def ready(self) -> Facts:
        """What it says of itself when it is ready, and from then on it is kept; ChildFailed when it ends."""
        assert self._running is not None, "start it first"
        facts = await self._facts_of(self._running)
        self._keeper = asyncio.create_task(self._keep(), name=f"keep-{self.name}")
        return facts

    async def stop(self, timeout_sec: float) -> None:
        """Ask it to end, and make it end after `timeout_sec`."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        running, self._running = self._running, None
        if running is None:
            return
        if not await stop_process(running.process, timeout_sec):
            self._say(f"The {self.name} did not end within {timeout_sec:g} s and was killed.")
        await self._bury(running)

    async def _keep(self) -> None:
        pause = _FIRST_PAUSE_SEC
        while True:
            running = self._running
            assert running is not None
            code = await running.process.wait()
            self._running = None
            await self._bury(running)
            if time.monotonic() - running.started > _SETTLED_SEC:
                pause = _FIRST_PAUSE_SEC
            self._say(f"The {self.name} ended ({_how(code)}); it is started again in {pause:g} s.")
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SEC)
            self._running = await self._launch_at_last()
            with contextlib.suppress(ChildFailed):  # it has ended again, which the next turn tells
                await self._facts_of(self._running)
                self._say(f"The {self.name} is back.")

    async def _launch_at_last(self) -> _Running:
        while True:
            try:
                return await self._launch()
            except OSError as error:  # such as too many processes, or no memory left
                self._say(f"The {self.name} cannot be started: {error}.")
                await asyncio.sleep(_LONGEST_PAUSE_SEC)

    async def _launch(self) -> _Running:
        watched_by_guard, lifeline = os.pipe()
        says_ready, tells_ready = os.pipe()
        try:
            ready = await _reader_of(says_ready)
            process = await asyncio.create_subprocess_exec(
                *guarded_command(
                    [*self._command, "--ready-fd", str(tells_ready)],
                    lifeline=watched_by_guard,
                    kept=[tells_ready],
                    grace_sec=_ORPHAN_GRACE_SEC,
                ),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=STDOUT,
                env=self._environ,
                pass_fds=(watched_by_guard, tells_ready),
                start_new_session=True,  # Ctrl-C is ours alone: we end everything in order
            )
        except BaseException:
            os.close(lifeline)
            raise
        finally:
            os.close(watched_by_guard)
            os.close(tells_ready)
        output = asyncio.create_task(self._read_output(process), name=f"output-{self.name}")
        return _Running(process, lifeline, ready, output, time.monotonic())

    async def _facts_of(self, running: _Running) -> Facts:
        line = await running.ready.readline()
        if not line:
            code = await running.process.wait()
            await running.output
            where = f"what it said is above and in {self._log_path}"
            raise ChildFailed(f"The {self.name} could not start ({_how(code)}); {where}.")
        facts: Facts = json.loads(line)
        return facts

    async def _read_output(self, process: Process) -> None:
        assert process.stdout is not None
        rest = b""
        with self._log_path.open("ab") as log:
            while chunk := await process.stdout.read(_CHUNK_BYTES):
                *lines, rest = (rest + chunk).split(b"\n")
                self._write(lines, log)
            if rest:
                self._write([rest], log)

    def _write(self, lines: Sequence[bytes], log: BinaryIO) -> None:
        for line in lines:
            log.write(line + b"\n")
            self._on_line(self.name, line.decode(errors="replace"))
        log.flush()

    async def _bury(self, running: _Running) -> None:
        """Collect what is left of a program that has ended."""
        await running.process.wait()
        await running.output
        os.close(running.lifeline)


async def _reader_of(descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
    )
    return reader


def _how(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
