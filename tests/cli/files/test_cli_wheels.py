"""`pyoco-client wheels`, `wheel-upload`, `wheel-history` and `wheel-delete`."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import PyocoHttpClient
from tests.support.commands import ClientCommand
from tests.support.running.gateway import gateway_beside
from tests.support.samples.wheels import wheel_file


@pytest.fixture
def empty_client(nats_url: str, tmp_path: Path) -> Iterator[ClientCommand]:
    """For a gateway without wheels."""
    with gateway_beside(nats_url, tmp_path) as url:
        yield ClientCommand(url)


def test_a_wheel_from_upload_to_delete(empty_client: ClientCommand, tmp_path: Path) -> None:
    client = empty_client
    assert client.json("wheels") == []
    assert client.table("wheels") == "(none)\n"
    file = wheel_file(tmp_path)
    size = file.stat().st_size
    upload = ("wheel-upload", "--wheel-file", str(file), "--tags", "cpu,linux", "--no-replace")
    wheel = client.json(*upload)
    assert (wheel["name"], wheel["tags"], wheel["size_bytes"]) == (file.name, ["cpu", "linux"], size)
    assert [each["nuid"] for each in client.json("wheels")] == [wheel["nuid"]]
    row = client.table("wheels", columns=140).splitlines()[1].split()
    assert row[:5] == [file.name, str(size), "B", "cpu,", "linux"]
    assert client.json("wheel-delete", "--name", file.name) == {"name": file.name, "deleted": True}
    events = client.json("wheel-history", "--limit", "100")
    assert [(event["action"], event["replace"]) for event in events] == [("delete", None), ("upload", False)]
    filtered = ("wheel-history", "--wheel-name", file.name, "--action", "upload")
    assert [event["action"] for event in client.json(*filtered)] == ["upload"]
    table = client.table("wheel-history", columns=140).splitlines()
    assert [line.split()[-1] for line in table] == ["Address", "127.0.0.1", "127.0.0.1"]


def test_a_file_of_unknown_size_is_rejected(client: ClientCommand) -> None:
    error = client.error("wheel-upload", "--wheel-file", "/dev/zero")
    assert "wheel_file='/dev/zero': expected a regular file" in error


@pytest.mark.parametrize("size", [10, 3_000_000])
def test_a_file_that_changes_while_it_is_sent_is_an_error(
    http: PyocoHttpClient, tmp_path: Path, size: int
) -> None:
    file = wheel_file(tmp_path, files={"noise": random.Random(1).randbytes(2_000_000)})

    def change(sent: int, total: int) -> None:
        os.truncate(file, size)

    with pytest.raises(InvalidCliArgument, match="it has changed while"):
        http.upload_wheel(file, on_progress=change)


def test_a_wheel_that_the_gateway_rejects_is_explained(client: ClientCommand, tmp_path: Path) -> None:
    file = wheel_file(tmp_path)
    client.json("wheel-upload", "--wheel-file", str(file))
    again = client.error("wheel-upload", "--wheel-file", str(file))
    assert "ERR-PYOCO-0022" in again
    assert "expected one above 0.1.0" in again
    assert "ERR-PYOCO-0023" in client.error("wheel-delete", "--name", "other-1.0-py3-none-any.whl")


def test_a_terminal_shows_the_progress_of_an_upload(client: ClientCommand, tmp_path: Path) -> None:
    file = wheel_file(tmp_path, "large", files={"data.bin": bytes(3_000_000), "noise.py": "x = 1\n"})
    with client.on_terminal("wheel-upload", "--wheel-file", str(file)) as terminal:
        terminal.shows("Checking on the gateway")
        assert terminal.end() == 0
        assert file.name in terminal.text
