"""`pyoco-client wheels`, `wheel-upload`, `wheel-history` and `wheel-delete`."""

import io
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from pyoco_server.cli.commands.workers_command import worker_view
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import PyocoHttpClient
from tests.support.broker.worker_records import a_record
from tests.support.commands import call_client
from tests.support.places import ROOT
from tests.support.programs import CLIENT, run_command
from tests.support.running.gateway import gateway_beside
from tests.support.samples.wheels import wheel_file
from tests.support.terminal import on_terminal


@pytest.fixture(scope="module")
def server(_unused_accounts: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One for all tests that do not mind the wheels of the others."""
    with gateway_beside(next(_unused_accounts), tmp_path_factory.mktemp("wheels")) as url:
        yield url


@pytest.fixture
def empty_server(nats_url: str, tmp_path: Path) -> Iterator[str]:
    with gateway_beside(nats_url, tmp_path) as url:
        yield url


def client(server: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return call_client(*arguments, PYOCO_SERVER=server, COLUMNS="140")


def answered(server: str, *arguments: str) -> Any:
    done = client(server, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_a_wheel_from_upload_to_delete(empty_server: str, tmp_path: Path) -> None:
    server = empty_server
    assert answered(server, "wheels") == []
    assert client(server, "wheels", "--output", "table").stdout == "(none)\n"
    file = wheel_file(tmp_path)
    told = answered(server, "wheel-upload", "--wheel-file", str(file), "--tags", "cpu,linux", "--no-replace")
    assert (told["name"], told["tags"], told["size_bytes"]) == (
        file.name,
        ["cpu", "linux"],
        file.stat().st_size,
    )
    assert [wheel["nuid"] for wheel in answered(server, "wheels")] == [told["nuid"]]
    row = client(server, "wheels", "--output", "table").stdout.splitlines()[1].split()
    assert row[:5] == [file.name, str(file.stat().st_size), "B", "cpu,", "linux"]
    assert answered(server, "wheel-delete", "--name", file.name) == {"name": file.name, "deleted": True}
    events = answered(server, "wheel-history", "--limit", "100")
    assert [(event["action"], event["replace"]) for event in events] == [("delete", None), ("upload", False)]
    filtered = ("wheel-history", "--wheel-name", file.name, "--action", "upload")
    assert [event["action"] for event in answered(server, *filtered)] == ["upload"]
    table = client(server, "wheel-history", "--output", "table").stdout.splitlines()
    assert [line.split()[-1] for line in table] == ["From", "127.0.0.1", "127.0.0.1"]


def test_what_is_no_file_of_a_known_size_is_refused_without_a_traceback(server: str) -> None:
    done = run_command(CLIENT, "wheel-upload", "--wheel-file", "/dev/zero", PYOCO_SERVER=server)
    assert done.returncode == 1
    assert "wheel_file='/dev/zero': expected a regular file" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("size", [10, 3_000_000])
def test_a_file_that_changes_while_it_is_sent_is_told(server: str, tmp_path: Path, size: int) -> None:
    file = wheel_file(tmp_path, files={"noise": random.Random(1).randbytes(2_000_000)})

    def change(sent: int, total: int) -> None:
        os.truncate(file, size)

    with PyocoHttpClient(server) as http, pytest.raises(InvalidCliArgument, match="it has changed while"):
        http.upload_wheel(file, on_progress=change)


def test_what_the_gateway_refuses_is_said_with_its_cure(server: str, tmp_path: Path) -> None:
    file = wheel_file(tmp_path)
    answered(server, "wheel-upload", "--wheel-file", str(file))
    again = client(server, "wheel-upload", "--wheel-file", str(file))
    assert again.returncode == 1
    assert "ERR-PYOCO-0022" in again.stderr
    assert "expected one above 0.1.0" in again.stderr
    missing = client(server, "wheel-delete", "--name", "other-1.0-py3-none-any.whl")
    assert (missing.returncode, "ERR-PYOCO-0023" in missing.stderr) == (1, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("wheel-upload",),
        ("wheel-upload", "--wheel-file", "no-such-file.whl"),
        ("wheel-upload", "--wheel-file", "pyproject.toml", "--tags", "a.b"),
        ("wheel-delete",),
        ("wheel-history", "--limit", "501"),
        ("wheel-history", "--action", "rename"),
    ],
)
def test_a_wrong_argument_is_said_before_anything_is_sent(arguments: tuple[str, ...]) -> None:
    done = call_client(*arguments, cwd=ROOT, PYOCO_SERVER="http://127.0.0.1:1")
    assert done.returncode == 1
    assert "pyoco-client" in done.stderr


@pytest.mark.parametrize(
    ("wheels", "rows"),
    [
        ({}, []),
        ({"enabled": False}, []),
        (
            {"enabled": True, "last_result": "ok", "error": None, "installed_wheels": []},
            ["ok: none installed"],
        ),
        (
            {
                "enabled": True,
                "last_result": "error",
                "error": "no room",
                "installed_wheels": [{"package": "a", "version": "1"}, {"package": "b", "version": "2"}],
            },
            ["error: a 1, b 2", "no room"],
        ),
    ],
)
def test_a_worker_is_shown_with_its_wheels(wheels: dict[str, Any], rows: list[str]) -> None:
    worker = a_record("w", seen_at=0.0)
    fields = {**msgspec.to_builtins(worker), "draining": False, "wheel_sync": wheels or None}
    screen = Console(file=io.StringIO(), width=200)
    screen.print(worker_view(fields))  # type: ignore[arg-type]
    assert isinstance(screen.file, io.StringIO)
    lines = screen.file.getvalue().splitlines()
    shown = [line.split("  ", 1)[1].strip() for line in lines if line.startswith("wheel")]
    assert shown == rows


def test_a_person_sees_how_far_an_upload_is(server: str, tmp_path: Path) -> None:
    file = wheel_file(tmp_path, "large", files={"data.bin": bytes(3_000_000), "noise.py": "x = 1\n"})
    command = [sys.executable, "-m", CLIENT, "wheel-upload", "--wheel-file", str(file)]
    with on_terminal(command, PYOCO_SERVER=server) as screen:
        screen.shows("Checking on the gateway")
        assert screen.end() == 0
        assert file.name in screen.text
