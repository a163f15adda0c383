"""Starts our programs, and the executors of workers, as forks of a process that has imported them already.

Importing is most of what starting one costs. A forked program is a real process with its own environment,
working directory and files; it runs `python -m <module>` from the end of the imports on.
"""

import asyncio
import atexit
import ctypes
import fcntl
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final, NoReturn

import pyoco_server
from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker.executors import executor_template, os_process
from tests.support.forks import stand_in
from tests.support.places import ROOT
from tests.support.settings import allow_patient_programs
from tests.support.waiting import LIMIT_SEC

_PRELOADED: Final = (
    *("pyoco_server.cli.server.server_command", "pyoco_server.cli.worker_command"),
    *("pyoco_server.cli.client_command", "pyoco_server.admin_cli"),
    # What these programs import when their command is called.
    *("pyoco_server.cli.server.up_command", "pyoco_server.cli.worker_process"),
    *("pyoco_server.cli.server.dev_command", "pyoco_server.cli.admin.api_key_command"),
    *(f"pyoco_server.cli.commands.runs.{name}_command" for name in ("dlq", "submit", "watch")),
    *(f"pyoco_server.cli.commands.waits.{name}_command" for name in ("resume", "waits")),
    # What they import when they serve, or send a request.
    *("uvicorn", "uvicorn.lifespan.on", "uvloop", "pyoco_server.http_api.server.uvicorn_adapter"),
    *(
        "pydantic.fields",
        "pydantic.functional_validators",
        "pydantic.type_adapter",
    ),  # Typer, for some options
    *("httpcore", "encodings.idna", "cryptography.fernet"),
    "pyoco_server.worker.child.executor_main",
)
# Programs that start executors.
_WORKERS: Final = ("pyoco_server.cli.worker_command", "tests.support.running.crashing_worker")
_MAX_REQUEST: Final = 1 << 20
_MAX_FILES: Final = 16
# Above the numbers that a program is given.
_FIRST_FREE_FD: Final = 512
_STATUS_BYTES: Final = 4
_PR_SET_CHILD_SUBREAPER: Final = 36


class ForkedProcess:
    """The part of `subprocess.Popen` that the tests use."""

    def __init__(self, args: Sequence[str], pid: int, status: int) -> None:
        self.args = args
        self.pid = pid
        self.returncode: int | None = None
        self._status = status
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        return self._read_status(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._read_status(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(list(self.args), timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read_status(self, timeout: float | None) -> int | None:
        """Without the lock while waiting: another thread may want to kill it meanwhile."""
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            with self._lock:
                if self.returncode is None:
                    written = os.read(self._status, _STATUS_BYTES)
                    assert written, "the fork server has ended"
                    self.returncode = int.from_bytes(written, "big", signed=True)
        return self.returncode


class ForkServer:
    def __init__(self, control: socket.socket) -> None:
        self._socket = control
        self._lock = threading.Lock()

    def start(
        self,
        module: str,
        *arguments: str,
        cwd: Path | None,
        env: Mapping[str, str],
        stdout: int,
        stderr: int,
        terminal: int | None = None,
        pass_fds: Sequence[int] = (),
        forks_executors: bool = True,
    ) -> ForkedProcess:
        """Start a program whose exit is reported by the server.

        With a terminal, which is also its standard input, it has a session of its own.
        """
        reading, writing = os.pipe()
        stdin = {} if terminal is None else {0: terminal}
        files = {**stdin, 1: stdout, 2: stderr, **{fd: fd for fd in pass_fds}}
        request = _request(module, arguments, cwd, env, list(files))
        request |= {"on_terminal": bool(stdin), "forks_executors": forks_executors}
        with self._lock:
            pid = self._send(request, [writing, *files.values()])
        os.close(writing)
        return ForkedProcess([module, *arguments], pid, reading)

    def start_child(
        self,
        module: str,
        *arguments: str,
        env: Mapping[str, str],
        stdout: int,
        stderr: int,
        pass_fds: Sequence[int] = (),
    ) -> int:
        """Start a program as a child of this process, in a session of its own; returns its id."""
        request = _request(module, arguments, None, env, [1, 2, *pass_fds])
        with self._lock, _adopting_orphans():
            return self._send(request | {"adopted": True}, [stdout, stderr, *pass_fds])

    def _send(self, request: Mapping[str, Any], files: list[int]) -> int:
        """The id of the started program."""
        socket.send_fds(self._socket, [json.dumps(request).encode()], files)
        return int(self._socket.recv(64))


class ForkedExecutor:
    """The part of `asyncio.subprocess.Process` that a worker uses."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._loop = asyncio.get_running_loop()
        self._exit: asyncio.Future[int] = self._loop.create_future()
        self._exit_event = os.pidfd_open(pid)
        self._loop.add_reader(self._exit_event, self._on_exit)

    async def wait(self) -> int:
        return await asyncio.shield(self._exit)

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._exit_event)
        os.close(self._exit_event)
        _, status = os.waitpid(self.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)
        self._exit.set_result(self.returncode)


def fork_executors(server: Callable[[], ForkServer]) -> None:
    """Have workers of this process start their executors as forks, in place of new interpreters."""

    async def fork(
        _: str,
        __: str,
        module: str,
        *arguments: str,
        env: dict[str, str],
        pass_fds: Sequence[int],
        **files: Any,
    ) -> ForkedExecutor:
        """As `create_subprocess_exec(python, "-m", module, ...)`."""
        return ForkedExecutor(
            server().start_child(
                module, *arguments, env=env, stdout=files["stdout"], stderr=files["stderr"], pass_fds=pass_fds
            )
        )

    os_process.create_subprocess_exec = fork  # type: ignore[assignment, attr-defined]
    # Each worker would start a template of its own.
    executor_template.is_supported = lambda: False


def _request(
    module: str, arguments: Sequence[str], cwd: Path | None, env: Mapping[str, str], targets: list[int]
) -> dict[str, Any]:
    """`targets` are the numbers that the program expects its files to have."""
    return {
        "module": module,
        "arguments": arguments,
        "cwd": str(cwd or Path.cwd()),
        "env": dict(env),
        "targets": targets,
    }


@contextmanager
def _adopting_orphans() -> Iterator[None]:
    """A process below this one whose parent exits becomes a child of this one."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    yield
    prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


_servers: dict[int, ForkServer] = {}
_stand_in_folders: dict[int, Path] = {}


def fork_server() -> ForkServer:
    """The server of this test process, started on first use."""
    if os.getpid() not in _servers:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        folder, callers = _write_stand_ins()
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno()), str(callers.fileno())],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), callers.fileno()),
        )
        theirs.close()
        callers.close()
        # Closing its socket ends the server.
        atexit.register(process.wait)
        atexit.register(ours.close)
        _servers[os.getpid()] = ForkServer(ours)
        _stand_in_folders[os.getpid()] = folder
    return _servers[os.getpid()]


def stand_ins() -> Path:
    """A folder for the PATH of a shell, where our programs are forks of the server of this test process."""
    fork_server()
    return _stand_in_folders[os.getpid()]


def _write_stand_ins() -> tuple[Path, socket.socket]:
    """A folder of stand-ins, and the socket that they connect to."""
    folder = tempfile.TemporaryDirectory(prefix="pyoco-programs-")
    atexit.register(folder.cleanup)
    text = f"#!{sys.executable} -IS\n{Path(stand_in.__file__).read_text()}"
    for name in (stand_in.INTERPRETER, *stand_in.MODULES):
        program = Path(folder.name, name)
        program.write_text(text)
        program.chmod(0o700)
    callers = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    callers.bind(f"{folder.name}/{stand_in.SOCKET}")
    callers.listen()
    return Path(folder.name), callers


# Within the server


class _Server:
    def __init__(self, control: socket.socket, callers: socket.socket | None = None) -> None:
        """Requests come from `control`, and from each stand-in that connects to `callers`."""
        self._control = control
        self._callers = callers
        self._woken, self._wake = os.pipe()
        # Of each program, the file that its exit code is written to.
        self._statuses: dict[int, int] = {}
        # The program of each stand-in, by the connection that is its status file as well.
        self._called: dict[int, int] = {}
        self._has_ended = False

    def serve(self) -> dict[str, Any] | None:
        """Fork for each request. Returns the request in a fork, and None in the server when it is to end."""
        for fd in (self._woken, self._wake):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake)
        sources = [self._control] if self._callers is None else [self._control, self._callers]
        while True:
            files: list[int | socket.socket] = [self._woken, *sources, *self._called]
            ready, _, _ = select.select(files, [], [])
            # Before programs that have ended are collected: until then nobody else has the id of one.
            for connection in [fd for fd in self._called if fd in ready]:
                self._pass_on(connection)
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._report_ended()
            for source in sources:
                if source in ready:
                    request = self._receive() if source is self._control else self._accept(source)
                    if request is not None or self._has_ended:
                        return request

    def _receive(self) -> dict[str, Any] | None:
        """The request, in the fork for it."""
        message, fds, _, _ = socket.recv_fds(self._control, _MAX_REQUEST, _MAX_FILES)
        if not message:
            self._has_ended = True
            for pid in self._called.values():
                os.kill(pid, signal.SIGKILL)
            return None
        request: dict[str, Any] = json.loads(message)
        pid = self._fork(request, fds, None if request.get("adopted") else fds.pop(0))
        if pid == 0:
            return request
        self._control.send(str(pid).encode())
        return None

    def _accept(self, callers: socket.socket) -> dict[str, Any] | None:
        """The same for the request of a stand-in."""
        connection, _ = callers.accept()
        message, fds, _, _ = socket.recv_fds(connection, _MAX_REQUEST, _MAX_FILES)
        status = connection.detach()
        if not message:  # it was killed before it asked
            os.close(status)
            return None
        request: dict[str, Any] = json.loads(message)
        pid = self._fork(request, fds, status)
        if pid == 0:
            return request
        self._called[status] = pid
        return None

    def _fork(self, request: dict[str, Any], fds: list[int], status: int | None) -> int:
        """As `os.fork`; the fork has the files of the request only."""
        pid = _fork_orphan() if status is None else os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for fd in (
                self._woken,
                self._wake,
                *self._statuses.values(),
                *([] if status is None else [status]),
            ):
                os.close(fd)
            self._control.close()
            if self._callers is not None:
                self._callers.close()
            _place(fds, request["targets"])
            return 0
        if status is not None:
            self._statuses[pid] = status
        for fd in fds:
            os.close(fd)
        return pid

    def _pass_on(self, connection: int) -> None:
        """A signal from a stand-in, which kills its program when it has ended itself."""
        numbers = os.read(connection, 64) or bytes([signal.SIGKILL])
        for number in numbers:
            os.kill(self._called[connection], number)
        if signal.SIGKILL in numbers:
            del self._called[connection]

    def _report_ended(self) -> None:
        for pid in list(self._statuses):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                fd = self._statuses.pop(pid)
                self._called.pop(fd, None)
                with suppress(BrokenPipeError):  # the stand-in was killed
                    os.write(fd, code.to_bytes(_STATUS_BYTES, "big", signed=True))
                os.close(fd)


def _fork_orphan() -> int:
    """Fork a process, in a session of its own, whose parent has exited when this returns."""
    reading, writing = os.pipe()
    between = os.fork()
    if between == 0:
        os.close(reading)
        pid = os.fork()
        if pid == 0:
            os.close(writing)
            os.setsid()
            return 0
        os.write(writing, str(pid).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(between, 0)
    pid = int(os.read(reading, 64))
    os.close(reading)
    return pid


def _place(fds: Sequence[int], targets: Sequence[int]) -> None:
    """Give the files the numbers that the program expects."""
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD) for fd in fds]
    for fd in fds:
        os.close(fd)
    for fd, target in zip(moved, targets, strict=True):
        os.dup2(fd, target)
        os.close(fd)


def _run(request: dict[str, Any]) -> NoReturn:
    """What `python -m` does, in a process that has imported the module's package already."""
    os.environ.clear()
    os.environ.update(request["env"])
    if not {"dev", "agent"} & set(request["arguments"][:1]):
        # The programs that these start are no forks, and reject it.
        os.environ.setdefault("PYOCO_NATS_REQUEST_TIMEOUT_SEC", f"{LIMIT_SEC:g}")
    os.chdir(request["cwd"])
    paths = [path for path in request["env"].get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:1] = [request.get("import_folder", request["cwd"]), *paths]
    sys.argv[1:] = request["arguments"]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if request.get("on_terminal"):
        os.setsid()
        # Only the terminal that controls a session sends the signals of its keys.
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        assert isinstance(sys.stdout, TextIOWrapper)
        sys.stdout.reconfigure(line_buffering=True)
    if "interpreter" in request:
        os.setsid()
        sys.executable = request["interpreter"]
        for number in request["ignored_signals"]:
            signal.signal(number, signal.SIG_IGN)
    if request["module"] in _WORKERS and request.get("forks_executors", True):
        server = _forked_server()
        fork_executors(lambda: server)
    # A module of `_PRELOADED` is executed once more as `__main__`, which runpy warns about otherwise.
    sys.modules.pop(request["module"], None)
    try:
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        code = ended.code or 0
    else:
        code = 0
    _end(code)


def _end(code: int) -> NoReturn:
    """End as the interpreter does, except that what was imported is not freed.

    To free an object is to write to it: each program would copy the memory that it shares with the server,
    in 60 ms, which is more than most of them need for their work.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    # What the program has not awaited or closed is reported.
    gc.collect()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        # The interpreter reports it, and replaces the exit code.
        sys.exit(code)
    os._exit(code)


def _forked_server() -> ForkServer:
    """A server for the executors of this program, which has no threads yet. It ends with the program."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork():
        theirs.close()
        return ForkServer(ours)
    ours.close()
    # A signal to the whole service is not for it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    forked = _Server(theirs).serve()
    if forked is None:
        os._exit(0)
    _run(forked)


if __name__ == "__main__":
    for name in _PRELOADED:
        import_module(name)
    allow_patient_programs()
    # The commands import these when they are called. The first app makes the routes of all.
    assert all((pyoco_server.create_app(NatsBackendConfig(load_dotenv=False)), pyoco_server.PyocoNatsWorker))
    assert threading.active_count() == 1, "a process with threads cannot be forked"
    gc.collect()
    # For the forks as well, as in production (template_main.py): a collection in one of them, such as that at
    # its end, would otherwise touch, and so copy, all that it shares with this process.
    gc.freeze()
    forked = _Server(*(socket.socket(fileno=int(fd)) for fd in sys.argv[1:])).serve()
    if forked is not None:
        _run(forked)
