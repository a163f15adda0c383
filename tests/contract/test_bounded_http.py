"""The HTTP server: limits on heads and bodies, HTTPS, and the warning about a public address."""

import io
import json
import signal
import ssl
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from rich.console import Console
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pyoco_server.cli.server.dev_command import DevOptions, DevScreen, WorkerFacts
from pyoco_server.cli.server.listening import open_access_warning
from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.server import uvicorn_adapter
from pyoco_server.http_api.server.asgi_server import protocol_options
from pyoco_server.http_api.server.request_head import MAX_HEAD_BYTES
from pyoco_server.http_api.server.uvicorn_adapter import MAX_UNREAD_BYTES, BoundedHttpProtocol
from pyoco_server.telemetry.fast_paths import fast_paths
from tests.support.clocks import FakeClockLoop
from tests.support.programs import SERVER, run_command, running
from tests.support.raw_http import answer_to, connected, echo, refuse_at_once
from tests.support.samples.certificates import Certificates
from tests.support.waiting import eventually

NO_NATS = ("--nats-url", "nats://127.0.0.1:1")


@pytest.fixture
def another_uvicorn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A version of uvicorn whose protocol has other state."""
    needed = {HttpToolsProtocol.__init__: {"no_such_name"}}
    with monkeypatch.context() as patched:
        patched.setattr(uvicorn_adapter, "_NEEDED", needed)
        yield
    protocol_options()


def test_the_installed_uvicorn_is_the_one_that_the_adapter_needs() -> None:
    assert uvicorn_adapter.mismatch() is None
    assert protocol_options() == {"http": BoundedHttpProtocol}
    assert fast_paths()["uvicorn"]


def test_another_response_head_is_a_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    head = b"HTTP/1.1 200 Fine\r\n\r\n"
    monkeypatch.setattr(uvicorn_adapter, "_cached_head", lambda status, headers: (head, 2))
    assert uvicorn_adapter.mismatch() == "it writes another response head"


@pytest.mark.usefixtures("another_uvicorn")
async def test_another_uvicorn_is_used_by_its_public_options(caplog: pytest.LogCaptureFixture) -> None:
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nConnection: close\r\n\r\n"
    response, _ = await answer_to(echo, head, b"hello")
    assert response.startswith(b"HTTP/1.1 200 ")
    assert response.endswith(b"hello")
    long_head = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (2 * MAX_HEAD_BYTES)
    rejected, cut_off = await answer_to(echo, long_head)
    assert rejected.startswith(b"HTTP/1.1 400 ") or cut_off
    assert not fast_paths()["uvicorn"]
    assert "HttpToolsProtocol.__init__ does not use no_such_name" in caplog.text


async def test_an_endless_head_is_431() -> None:
    parts = [b"GET / HTTP/1.1\r\nHost: localhost\r\n", *[b"X: " + b"x" * 1000 + b"\r\n"] * 200]
    answer, _ = await answer_to(refuse_at_once, *parts)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")


async def test_an_endless_header_is_431() -> None:
    async with connected() as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (MAX_HEAD_BYTES + 1))
        assert (await reader.readline()).startswith(b"HTTP/1.1 431 ")


async def test_keep_alive_with_normal_heads() -> None:
    request = (
        b"POST / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20_000 + b"\r\nContent-Length: 3\r\n\r\nabc"
    )
    async with connected() as (reader, writer):
        for _ in range(10):
            writer.write(request)
            assert (await reader.readuntil(b"\r\n\r\nno")).startswith(b"HTTP/1.1 413 ")


async def test_a_head_after_a_long_body_is_counted_by_itself() -> None:
    body = b"x" * (3 * MAX_HEAD_BYTES)
    first = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    second = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with connected() as (reader, writer):
        # In one piece, so that it ends in the middle of the second head.
        writer.write(first + body + second[:20])
        assert (await reader.readuntil(b"\r\n\r\nno")).startswith(b"HTTP/1.1 413 ")
        writer.write(second[20:])
        assert (await reader.readuntil(b"\r\n\r\nno")).startswith(b"HTTP/1.1 413 ")


async def test_the_connection_is_closed_when_an_unread_body_is_too_long() -> None:
    size = 500 * MAX_UNREAD_BYTES
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % size
    _, cut_off = await answer_to(refuse_at_once, head, *[b"x" * MAX_UNREAD_BYTES] * 500)
    assert cut_off


@pytest.mark.parametrize("beginning", [b"", b"GET / HTTP/1.1\r\nHost: loc"], ids=["nothing", "part"])
async def test_a_connection_without_a_request_is_closed(
    monkeypatch: pytest.MonkeyPatch, beginning: bytes
) -> None:
    monkeypatch.setattr(uvicorn_adapter, "_HEAD_SEC", 0.2)
    async with connected() as (reader, writer):
        writer.write(beginning)
        assert await reader.read() == b""


@pytest.mark.parametrize(
    ("app", "head", "answer"),
    [
        (echo, b"Content-Length: 100000", b"408 Request Timeout\r\nconnection: close"),
        (echo, b"Transfer-Encoding: chunked", b"408 Request Timeout\r\nconnection: close"),
        # The response is sent before the body arrives.
        (refuse_at_once, b"Content-Length: 100000", b"413 "),
    ],
)
async def test_a_missing_body_is_408(
    monkeypatch: pytest.MonkeyPatch, app: Callable[..., Any], head: bytes, answer: bytes
) -> None:
    monkeypatch.setattr(uvicorn_adapter, "_BODY_SEC", 0.3)
    async with connected(app) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n\r\n1")
        assert (await reader.read()).startswith(b"HTTP/1.1 " + answer)


async def test_a_slow_body_above_the_minimum_rate_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = _with_test_clock(monkeypatch)
    # Each part allows for the pause before it; together they take far longer than the base limit.
    pause_sec, parts = 25, 8
    size = pause_sec * uvicorn_adapter._MIN_BYTES_PER_SEC
    async with connected(echo) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (parts * size))
        connection = await eventually(lambda: _in_body(connections), describe="the head is read")
        for number in range(parts):
            connection.clock.advance(pause_sec)
            writer.write(b"x" * size)
            await eventually(
                lambda so_far=number + 1: connection.received == so_far * size,  # type: ignore[misc]
                describe="the part is received",
            )
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert len(await reader.readexactly(parts * size)) == parts * size
        # The connection stays open.
        connection.clock.advance(1)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_a_stalled_body_is_408(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = _with_test_clock(monkeypatch)
    worth_sec = 10
    size = worth_sec * uvicorn_adapter._MIN_BYTES_PER_SEC
    async with connected(echo) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (2 * size))
        connection = await eventually(lambda: _in_body(connections), describe="the head is read")
        writer.write(b"x" * size)
        await eventually(lambda: connection.received == size, describe="the part is received")
        connection.clock.advance(uvicorn_adapter._BODY_SEC + worth_sec - 0.1)
        assert not connection.transport.is_closing()
        connection.clock.advance(0.1)
        assert (await reader.read()).startswith(b"HTTP/1.1 408 Request Timeout\r\nconnection: close")


class _Clocked(BoundedHttpProtocol):
    """A connection with a clock that the test sets."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.clock = FakeClockLoop()
        self.loop = self.clock  # type: ignore[assignment]

    @property
    def received(self) -> int:
        return self._body_bytes

    @property
    def in_body(self) -> bool:
        return self._body_timer is not None


def _with_test_clock(monkeypatch: pytest.MonkeyPatch) -> list[_Clocked]:
    """New connections use such a clock; they are appended to the list."""
    made: list[_Clocked] = []

    def connection(*args: Any, **options: Any) -> _Clocked:
        made.append(_Clocked(*args, **options))
        return made[-1]

    monkeypatch.setattr(uvicorn_adapter, "BoundedHttpProtocol", connection)
    return made


def _in_body(connections: list[_Clocked]) -> _Clocked | None:
    return next((each for each in connections if each.in_body), None)


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket"])
@pytest.mark.parametrize(
    "rest", [b"Content-Length: 5\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"]
)
@pytest.mark.parametrize("pieces", [1, 2, 3])
async def test_an_upgrade_request_is_served_as_http_1(
    protocol: bytes, rest: bytes, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The HTTP client of Java asks for one with every request."""
    taken = _counted_bytes(monkeypatch)
    request = (
        b"POST /runs HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: " + protocol + b"\r\nHTTP2-Settings: AAEAAEAA\r\n" + rest
    )
    head = request.index(b"\r\n\r\n") + 4
    cuts = {1: [len(request)], 2: [head, len(request)], 3: [30, head + 2, len(request)]}[pieces]
    async with connected(echo) as (reader, writer):
        for _ in range(2):
            taken.clear()
            for begin, end in pairwise([0, *cuts]):
                writer.write(request[begin:end])
                # Each piece in a read of its own.
                await eventually(
                    lambda sent=end: sum(taken) == sent,  # type: ignore[misc]
                    describe="the piece is received",
                )
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert b"upgrade" not in answer
            assert await reader.readexactly(5) == b"hello"


def _counted_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the reads from the socket."""
    taken: list[int] = []
    take = BoundedHttpProtocol.data_received

    def counting(connection: BoundedHttpProtocol, data: bytes) -> None:
        take(connection, data)
        taken.append(len(data))

    monkeypatch.setattr(BoundedHttpProtocol, "data_received", counting)
    return taken


async def test_connect_is_rejected() -> None:
    answer, _ = await answer_to(echo, b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")


def test_https_with_the_configured_certificate(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "certificates")
    certificate, key = certificates.server
    files: dict[str, Any] = {"PYOCO_HTTP_TLS_CERT_FILE": certificate, "PYOCO_HTTP_TLS_KEY_FILE": key}
    with running(SERVER, "up", "--port", "0", *NO_NATS, **files) as (program, gateway):
        assert gateway["url"].startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=certificates.ca)
        with httpx.Client(verify=trusting) as client:
            assert client.get(f"{gateway['url']}/health").json()["status"] == "ok"
        with httpx.Client() as stranger, pytest.raises(httpx.ConnectError):
            stranger.get(f"{gateway['url']}/health")
        program.send(signal.SIGTERM)
        assert program.end() == 0


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (
            {"PYOCO_HTTP_TLS_CERT_FILE": "none.pem", "PYOCO_HTTP_TLS_KEY_FILE": "none.key"},
            "HTTP_TLS_CERT_FILE",
        ),
        ({"PYOCO_NATS_CREDS_FILE": "none.creds"}, "NATS_CREDS_FILE"),
    ],
)
def test_a_missing_file_is_exit_code_1_with_its_name(settings: dict[str, Any], named: str) -> None:
    done = run_command(SERVER, "up", "--port", "0", *NO_NATS, **settings)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"PYOCO_{named}" in done.stderr
    assert "none." in done.stderr
    assert "Traceback" not in done.stderr


def test_the_warning_is_a_log_line() -> None:
    with running(SERVER, "up", "--host", "0.0.0.0", "--port", "0", *NO_NATS) as (program, _):
        program.writes("require an API key")
        program.send(signal.SIGTERM)
        program.end()
    [line] = [line for line in map(json.loads, program.stdout.splitlines()) if "API key" in line["message"]]
    assert line["level"] == "WARNING"
    assert "PYOCO_HTTP_AUTH_MODE=api_key" in line["message"]


@pytest.mark.parametrize(("host", "warned"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_the_dev_screen_shows_the_warning(host: str, warned: bool) -> None:
    facts = WorkerFacts(worker_id="dev", tags=["default"], slots=1)
    options = DevOptions(config=NatsBackendConfig(), host=host, log_dir=Path("logs"))
    stack: Any = SimpleNamespace(
        options=options,
        worker_facts=facts,
        gateway_url="http://127.0.0.1:8000",
        nats=SimpleNamespace(data_dir=Path("nats")),
        nats_url="nats://127.0.0.1:4222",
        schedules=[],
    )
    text = io.StringIO()
    DevScreen(Console(file=text)).show_stack(stack)
    assert ("require an API key" in text.getvalue()) is warned


@pytest.mark.parametrize(
    ("host", "mode", "warned"),
    [
        ("127.0.0.1", "none", False),
        ("::1", "none", False),
        ("localhost", "none", False),
        ("0.0.0.0", "none", True),
        ("::", "none", True),
        ("10.0.0.5", "none", True),
        ("0.0.0.0", "api_key", False),
    ],
)
def test_a_public_address_without_keys_is_warned_about(host: str, mode: str, warned: bool) -> None:
    assert bool(open_access_warning(host, NatsBackendConfig(http_auth_mode=mode))) is warned
