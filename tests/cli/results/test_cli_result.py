"""`pyoco-client result`, and `submit --wait --result`."""

import json
from pathlib import Path

import pytest

from pyoco_server.http_client import PyocoHttpClient
from tests.support.commands import ClientCommand
from tests.support.waiting import LIMIT_SEC

SIZE = 300_000


@pytest.fixture(scope="module")
def large_run(http: PyocoHttpClient) -> str:
    """It has returned bytes."""
    run_id = http.submit_run("returning-bytes", {"size": SIZE})["run_id"]
    assert http.wait(run_id, LIMIT_SEC)["status"] == "COMPLETED"
    return run_id


def test_a_submit_prints_the_result_and_nothing_else(client: ClientCommand) -> None:
    words = ("submit", "--flow-name", "chain", "--param", "x=4", "--wait", "--result")
    done = client.run(*words)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"stored": 5})


def test_a_run_that_fails_prints_no_result(client: ClientCommand) -> None:
    done = client.run("submit", "--flow-name", "failing", "--wait", "--result")
    assert (done.returncode, done.stdout) == (1, "")
    assert "The run is FAILED" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [(["--result"], "add --wait"), (["--wait", "--result", "--output", "json"], "omit --output")],
)
def test_options_that_do_not_go_together(client: ClientCommand, words: list[str], says: str) -> None:
    done = client("submit", "--flow-name", "chain", *words)
    assert done.returncode == 1
    assert says in done.stderr


def test_a_result_and_the_output_of_a_task(client: ClientCommand, ended_run: str) -> None:
    assert json.loads(client.run("result", ended_run).stdout) == {"stored": 5}
    assert json.loads(client.run("result", ended_run, "--task", "load").stdout) == 5
    with client.on_terminal("result", ended_run) as terminal:
        terminal.shows('"stored": 5')
        assert terminal.end() == 0


def test_bytes_are_saved_as_they_are(client: ClientCommand, large_run: str, tmp_path: Path) -> None:
    file = tmp_path / "value.bin"
    done = client.run("result", large_run, "--output", str(file))
    assert (done.returncode, done.stdout) == (0, "")
    assert f"Wrote {SIZE} bytes to {file}." in done.stderr
    assert file.read_bytes()[:256] == bytes(range(256))
    assert file.stat().st_size == SIZE
    assert list(tmp_path.iterdir()) == [file]


def test_bytes_are_not_written_to_a_terminal(client: ClientCommand, large_run: str) -> None:
    with client.on_terminal("result", large_run) as terminal:
        terminal.shows(f"{SIZE} bytes and not text: save it with --output FILE")
        assert terminal.end() == 1


def test_a_result_that_does_not_exist_leaves_no_file(client: ClientCommand, tmp_path: Path) -> None:
    failed = json.loads(client("submit", "--flow-name", "failing", "--wait").stdout)["run_id"]
    done = client("result", failed, "--output", str(tmp_path / "value"))
    assert done.returncode == 1
    assert "ERR-PYOCO-0071" in done.stderr
    assert "FAILED" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written(client: ClientCommand, ended_run: str, tmp_path: Path) -> None:
    done = client("result", ended_run, "--output", str(tmp_path / "no" / "file"))
    assert done.returncode == 1
    assert "--output" in done.stderr
    assert "it cannot be written" in done.stderr
