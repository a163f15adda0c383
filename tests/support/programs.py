"""Our commands as real processes: run to their end, or kept running during a test."""

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.support.forks.fork_server import ForkedProcess, fork_server, stand_ins
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
    dropped = ("PYOCO_", "AX_", "LC_", "LANG")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    defaults = {
        "LANG": "C.UTF-8",
        "PYOCO_LOAD_DOTENV": "0",
        "PYOCO_INDEX_DIR": _index.name,
        # Its folder is below the working directory.
        "PYOCO_AUDIT_FILE": "off",
    }
    return {**kept, **defaults, **settings}


def run_command(
    module: str, *arguments: str, cwd: Path | None = None, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own (a fork, see fork_server.py) to its end."""
    return _run_to_end(_fork(module, *arguments, cwd=cwd, env=environment(**settings)))


def run_command_into(
    stdout: int, module: str, *arguments: str, **settings: str
) -> subprocess.CompletedProcess[str]:
    """The same with this file as its standard output."""
    fork = _fork(module, *arguments, cwd=None, env=environment(**settings))
    return _run_to_end(lambda _, stderr: fork(stdout, stderr))


def _run_to_end(start: Callable[[int, int], ForkedProcess]) -> subprocess.CompletedProcess[str]:
    with closing(Program(start)) as program:
        code = program.end()
    return subprocess.CompletedProcess(program.process.args, code, program.stdout, program.stderr)


class Program:
    """A started process, and what it has written so far."""

    def __init__(self, start: Callable[[int, int], subprocess.Popen[bytes] | ForkedProcess]) -> None:
        """`start` gets the files for the standard output and the standard error."""
        pipes = {"stdout": os.pipe(), "stderr": os.pipe()}
        self.process = start(pipes["stdout"][1], pipes["stderr"][1])
        for _, writing in pipes.values():
            os.close(writing)
        self._written: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._readers = [
            threading.Thread(target=self._read, args=(name, reading), daemon=True)
            for name, (reading, _) in pipes.items()
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

    def _read(self, name: str, reading: int) -> None:
        with os.fdopen(reading, "rb") as stream:
            for line in stream:
                self._written[name].append(line.decode(errors="replace"))


def _fork(
    module: str, *arguments: str, cwd: Path | None, env: dict[str, str], pass_fds: tuple[int, ...] = ()
) -> Callable[[int, int], ForkedProcess]:
    def start(stdout: int, stderr: int) -> ForkedProcess:
        return fork_server().start(
            module, *arguments, cwd=cwd, env=env, stdout=stdout, stderr=stderr, pass_fds=pass_fds
        )

    return start


def _spawn(
    module: str, *arguments: str, cwd: Path | None, env: dict[str, str], pass_fds: tuple[int, ...] = ()
) -> Callable[[int, int], subprocess.Popen[bytes]]:
    def start(stdout: int, stderr: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            pass_fds=pass_fds,
        )

    return start


@contextmanager
def forked(module: str, *arguments: str, cwd: Path | None = None, **settings: str) -> Iterator[Program]:
    """One of our programs (a fork, see fork_server.py)."""
    with closing(Program(_fork(module, *arguments, cwd=cwd, env=environment(**settings)))) as program:
        yield program


@contextmanager
def started(command: list[str], *, cwd: Path | None = None, **settings: str) -> Iterator[Program]:
    """A command as a user starts it."""

    def start(stdout: int, stderr: int) -> subprocess.Popen[bytes]:
        env = environment(**settings)
        return subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
        )

    with closing(Program(start)) as program:
        yield program


@contextmanager
def forked_stack(*arguments: str, cwd: Path | None = None, **settings: str) -> Iterator[Program]:
    """`pyoco-server dev` or `agent`, whose gateway and worker are forks as well (see stand_in.py)."""
    with started([str(stand_ins() / "pyoco-server"), *arguments], cwd=cwd, **settings) as program:
        yield program


@contextmanager
def running(
    module: str, *arguments: str, cwd: Path | None = None, **settings: str
) -> Iterator[tuple[Program, dict[str, Any]]]:
    """A gateway or a worker that is ready (a fork, see fork_server.py), and what it reported then."""
    with announcing(module, *arguments, cwd=cwd, **settings) as (program, ready):
        yield program, ready()


@contextmanager
def spawned(
    module: str, *arguments: str, cwd: Path | None = None, **settings: str
) -> Iterator[tuple[Program, dict[str, Any]]]:
    """As `running`, in a new interpreter: for tests of memory, which a fork shares with its parent."""
    with _announcing(_spawn, (module, *arguments), cwd, environment(**settings)) as (program, ready):
        yield program, ready()


@contextmanager
def announcing(
    module: str, *arguments: str, cwd: Path | None = None, **settings: str
) -> Iterator[tuple[Program, Any]]:
    """A gateway or a worker, and a function that waits until it is ready."""
    with _announcing(_fork, (module, *arguments), cwd, environment(**settings)) as found:
        yield found


@contextmanager
def _announcing(
    launch: Callable[..., Any], command: tuple[str, ...], cwd: Path | None, env: dict[str, str]
) -> Iterator[tuple[Program, Any]]:
    reading, writing = os.pipe()
    start = launch(*command, "--ready-fd", str(writing), cwd=cwd, env=env, pass_fds=(writing,))
    with closing(Program(start)) as program, os.fdopen(reading) as announcement:
        os.close(writing)

        def ready() -> dict[str, Any]:
            line = announcement.readline()
            assert line, f"ended with {program.end()}: {program.stdout}{program.stderr}"
            facts: dict[str, Any] = json.loads(line)
            return facts

        yield program, ready


def accept_ctrl_c() -> None:
    """A shell has its background processes ignore SIGINT, which children inherit. In the main thread only."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
