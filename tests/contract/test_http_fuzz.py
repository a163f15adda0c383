"""Random paths, headers, forms and flow.yaml files: no 5xx, and no header that the request injects."""

import json
import socket
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyoco_server.http_client import PyocoHttpClient
from tests.support.programs import SERVER, Program, running
from tests.support.waiting import LIMIT_SEC, eventually_sync

MARK = "x-forged"
FORM = (
    b'--b\r\nContent-Disposition: form-data; name="flow_name"\r\n\r\nf\r\n'
    b'--b\r\nContent-Disposition: form-data; name="workflow"; filename="flow.yaml"\r\n'
    b"Content-Type: application/yaml\r\n\r\n"
    b"version: 1\nflow: {graph: a}\ntasks: {a: {callable: 'm:f'}}\n\r\n--b--\r\n"
)
HEADERS = (
    *("Host", "Origin", "Sec-Fetch-Site", "Content-Type", "Content-Length", "Transfer-Encoding", "Expect"),
    *("Accept", "Accept-Language", "Idempotency-Key", "Range", "If-Range", "Last-Event-ID", "X-API-Key"),
    *("traceparent", "tracestate", "baggage", "X-Forwarded-For", "User-Agent", "Connection", "Upgrade"),
)
fuzz = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


class Target:
    """A gateway in its own process."""

    def __init__(self, program: Program, url: str) -> None:
        self.program = program
        self._address = (urlsplit(url).hostname or "", urlsplit(url).port or 0)
        with PyocoHttpClient(url) as client:
            eventually_sync(lambda: client.health()["index"]["ready"], describe="the index is ready")
        document = json.loads(self.body_of(self.send("GET", "/openapi.json")))
        self.operations = [
            (method.upper(), path)
            for path, methods in document["paths"].items()
            for method in methods
            if not path.endswith("/watch")
        ]

    def send(self, method: str, path: str, headers: bytes = b"", body: bytes = b"") -> bytes:
        """The whole response; empty when the connection was closed without one."""
        usual = [b"Connection: close\r\n"]
        if b"host:" not in headers.lower():
            usual.append(b"Host: localhost\r\n")
        has_length = b"content-length:" in headers.lower() or b"transfer-encoding:" in headers.lower()
        if not has_length:
            usual.append(b"Content-Length: %d\r\n" % len(body))
        with socket.create_connection(self._address, timeout=LIMIT_SEC) as connection:
            connection.sendall(
                f"{method} {path} HTTP/1.1\r\n".encode() + b"".join(usual) + headers + b"\r\n" + body
            )
            if has_length:
                # The gateway may wait for a longer body.
                connection.shutdown(socket.SHUT_WR)
            response = b""
            try:
                while block := connection.recv(65536):
                    response += block
            except ConnectionResetError:
                # The gateway closes with unread input; its response may have arrived before.
                return response
        return response

    def body_of(self, response: bytes) -> bytes:
        return response.partition(b"\r\n\r\n")[2]

    def check(self, response: bytes) -> int:
        """The response is not a 5xx, and has no header of the request. Returns its status, 0 without one."""
        if not response:
            return 0
        head = response.partition(b"\r\n\r\n")[0].lower()
        status = int(head.split(b" ", 2)[1])
        assert status < 500, response[:2000]
        assert MARK.encode() not in head
        return status


@pytest.fixture(scope="module")
def target(_unused_accounts: Iterator[str]) -> Iterator[Target]:
    account = next(_unused_accounts)
    with running(SERVER, "up", "--port", "0", "--nats-url", account) as (program, gateway):
        yield Target(program, gateway["url"])


VALUES = st.one_of(
    st.binary(max_size=60).map(lambda value: value.replace(b"\r", b"").replace(b"\n", b"")),
    st.sampled_from(
        [
            *(b"", b"*", b"null", b"[", b"[::", b"http://[", b"localhost:99999999", b"a@b/c?d#e", b"\xff"),
            *(b"bytes=-", b"bytes=99999999999999999999-", b"0", b"-1", b"99999999999999999999999", b"q=;,;="),
            *(b"multipart/form-data" + rest for rest in (b"", b"; boundary=", b"; boundary=\xff")),
            *(b"application/json; charset=utf-99", b"chunked", b"100-continue", b"x" * 5000),
            b"00-" + b"f" * 32 + b"-" + b"0" * 16 + b"-01",
        ]
    ),
)


@fuzz
@given(
    data=st.data(),
    headers=st.lists(st.tuples(st.sampled_from(HEADERS), VALUES), max_size=4),
)
def test_headers(target: Target, data: st.DataObject, headers: list[tuple[str, bytes]]) -> None:
    method, path = data.draw(st.sampled_from(target.operations))
    path = path.replace("{run_id}", "0" * 32).replace("{", "").replace("}", "")
    lines = b"".join(name.encode() + b": " + value + b"\r\n" for name, value in headers)
    target.check(target.send(method, path, lines, b'{"flow_name": "f"}'))


SEGMENTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            *("..", "../..", "a/b", "a.b", "*", ">", "%2e%2e%2f", "\r\nX-Forged: 1", "\x00", "a b", "\ud7ff"),
            *("$KV.pyoco_auth.key.x", "$JS.API.INFO", "pyoco_worker_default", "key.x"),
            *("é" * 90, "x" * 300, "-1", "0", "1e9", "９"),
        ]
    ),
)


@fuzz
@given(data=st.data(), segment=SEGMENTS)
def test_path_and_query_parameters(target: Target, data: st.DataObject, segment: str) -> None:
    method, template = data.draw(st.sampled_from(target.operations))
    encoded = quote(segment, safe="")
    parts = [encoded if part.startswith("{") else part for part in template.split("/")]
    names = ["limit", "cursor", "status", "flow", "include", "tag", "wheel_name", "order", "wait", "after"]
    name = data.draw(st.sampled_from([*names, encoded]))
    status = target.check(target.send(method, f"{'/'.join(parts)}?{name}={encoded}"))
    assert status != 0


@fuzz
@given(
    cuts=st.lists(
        st.tuples(st.integers(0, len(FORM)), st.binary(max_size=12), st.integers(0, 12)), max_size=4
    ),
    boundary=st.sampled_from(["b", '"b"', "bb"]),
    path=st.sampled_from(["/runs/yaml", "/wheels"]),
)
def test_forms(target: Target, cuts: list[tuple[int, bytes, int]], boundary: str, path: str) -> None:
    body = FORM.replace(b"workflow", b"wheel") if path == "/wheels" else FORM
    for place, inserted, removed in cuts:
        body = body[:place] + inserted + body[place + removed :]
    headers = f"Content-Type: multipart/form-data; boundary={boundary}\r\n".encode()
    status = target.check(target.send("POST", path, headers, body))
    assert status != 0


LINES = (
    "version: 1|flow:|  graph: a >> b|  graph: [|tasks:|  a:|    callable: m:f|<<: *x|---|...|%YAML 9.9|.inf"
)
PIECES = (
    "&x |*x |- |? |: |{|}|[|]|!!binary |!!python/object:os.system |'|\"|0o777|1e999|~|=|1:1:1|\t|\x85|\u2028"
)
WORDS = st.sampled_from(
    [
        *(f"{line}\n" for line in LINES.split("|")),
        *PIECES.split("|"),
        *("|\n", ">\n", "2001-12-14t21:59:43.10-05:00\n", "\x00", "\ufeff", "defaults: {a: &a [*a]}\n"),
    ]
)


@fuzz
@given(pieces=st.lists(st.one_of(WORDS, st.text(max_size=5)), max_size=30))
def test_flow_yaml(target: Target, pieces: list[str]) -> None:
    body = FORM.replace(b"version: 1\n", "".join(pieces).encode("utf-8", "replace"), 1)
    headers = b"Content-Type: multipart/form-data; boundary=b\r\n"
    assert target.check(target.send("POST", "/runs/yaml", headers, body)) in (200, 422)


def test_the_gateway_is_healthy_and_has_logged_no_unexpected_error(target: Target) -> None:
    """The last test: no request of the others has caused an unexpected error."""
    assert target.check(target.send("GET", "/health")) == 200
    assert "unexpected error" not in target.program.stdout
