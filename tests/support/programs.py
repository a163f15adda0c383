"""Our commands as real processes: run to their end, or kept running while a test looks at them."""

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.waiting import LIMIT_SEC, eventually_sync

CLIENT = "pyoco_server.cli.client_command"
SERVER = "pyoco_server.cli.server.server_command"
WORKER = "pyoco_server.cli.worker_command"
ADMIN = "pyoco_server.admin_cli"

# Not in the folder of the project, where most programs of the tests are started.
_index = tempfile.TemporaryDirectory(prefix="pyoco-test-index-")
atexit.register(_index.cleanup)


def environment(**settings: str) -> dict[str, str]:
    """The environment without settings and languages of whoever runs the tests."""
    dropped = ("PYOCO_", "LC_", "LANG")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {**kept, "LANG": "C.UTF-8", "PYOCO_LOAD_DOTENV": "0", "PYOCO_INDEX_DIR": _index.name, **settings}


def run_command(
    module: str, *arguments: str, cwd: Path | None = None, **settings: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env=environment(**settings),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_SEC,
        check=False,
    )


class Program:
    """A process that was started, and what it has written so far."""

    def __init__(
        self, command: list[str], *, cwd: Path | None, env: Mapping[str, str], ready_fd: int
    ) -> None:
        _hear_ctrl_c()
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(ready_fd,) if ready_fd >= 0 else (),
        )
        self._written: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._readers = [
            threading.Thread(target=self._read, args=(name,), daemon=True) for name in self._written
        ]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def stdout(self) -> str:
        return "".join(self._written["stdout"])

    @property
    def stderr(self) -> str:
        return "".join(self._written["stderr"])

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """Its exit code, once it has ended and all it wrote is here."""
        code = self.process.wait(LIMIT_SEC)
        for reader in self._readers:
            reader.join(LIMIT_SEC)
        return code

    def writes(self, text: str) -> None:
        """Wait until the text is in what it wrote; fail at once when it ends without."""

        def written() -> bool:
            ended = self.process.poll() is not None
            if ended:
                self.end()
            found = text in self.stdout + self.stderr
            assert found or not ended, f"ended with {self.process.returncode}: {self.stdout}{self.stderr}"
            return found

        eventually_sync(written, describe=f"{text!r} in {self.process.args!r}'s output")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.end()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def _read(self, name: str) -> None:
        stream = getattr(self.process, name)
        for line in stream:
            self._written[name].append(line.decode(errors="replace"))


@contextmanager
def started(
    command: list[str], *, cwd: Path | None = None, ready_fd: int = -1, **settings: str
) -> Iterator[Program]:
    program = Program(command, cwd=cwd, env=environment(**settings), ready_fd=ready_fd)
    try:
        yield program
    finally:
        program.close()


@contextmanager
def running(
    module: str, *arguments: str, cwd: Path | None = None, **settings: str
) -> Iterator[tuple[Program, dict[str, Any]]]:
    """A gateway or a worker that is ready, and what it told about itself then."""
    with announcing(module, *arguments, cwd=cwd, **settings) as (program, ready):
        yield program, ready()


@contextmanager
def announcing(
    module: str, *arguments: str, cwd: Path | None = None, **settings: str
) -> Iterator[tuple[Program, Any]]:
    """A gateway or a worker, and a function that waits until it is ready."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", module, *arguments, "--ready-fd", str(writing)]
    with (
        started(command, cwd=cwd, ready_fd=writing, **settings) as program,
        os.fdopen(reading) as announcement,
    ):
        os.close(writing)

        def ready() -> dict[str, Any]:
            line = announcement.readline()
            assert line, f"ended with {program.end()}: {program.stdout}{program.stderr}"
            facts: dict[str, Any] = json.loads(line)
            return facts

        yield program, ready


def _hear_ctrl_c() -> None:
    """A shell starts what runs in its background deaf to Ctrl-C, and a deaf process has deaf children."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
