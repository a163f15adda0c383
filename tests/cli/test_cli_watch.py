"""`pyoco-client watch`: lines for a script, a live view for a person, and the exit code."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyoco_server.cli.commands.watch_command import _most_important
from pyoco_server.http_client import PyocoHttpClient
from tests.support.commands import call_client
from tests.support.places import FLOWS
from tests.support.programs import CLIENT, SERVER, WORKER, running, started
from tests.support.terminal import CTRL_C, on_terminal
from tests.support.waiting import eventually_sync

NO_RUN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def server(_unused_accounts: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, nats_url = tmp_path_factory.mktemp("watch"), next(_unused_accounts)
    with (
        running(SERVER, "up", "--port", "0", "--nats-url", nats_url, cwd=folder) as (_, gateway),
        running(WORKER, "--flows", str(FLOWS), "--nats-url", nats_url, cwd=folder),
        PyocoHttpClient(gateway["url"]) as client,
    ):
        eventually_sync(lambda: client.health()["index"]["ready"], describe="the index is ready")
        yield gateway["url"]


@pytest.fixture
def client(server: str) -> Iterator[PyocoHttpClient]:
    with PyocoHttpClient(server) as client:
        yield client


def watch(server: str, run_id: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return call_client("watch", "--run-id", run_id, *arguments, PYOCO_SERVER=server)


def command(run_id: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", CLIENT, "watch", "--run-id", run_id, *arguments]


def test_a_script_gets_a_line_for_each_change_and_0_for_completed(
    server: str, client: PyocoHttpClient, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    run_id = client.submit_run("waiting", {"path": str(go_on)})["run_id"]
    with started(command(run_id), PYOCO_SERVER=server) as program:
        program.writes("task wait_for_file RUNNING\n")
        go_on.touch()
        assert program.end() == 0
    lines = program.stdout.splitlines()
    assert len(lines) == len(set(lines))
    assert lines[-2].startswith("task wait_for_file SUCCEEDED (")
    assert lines[-1].startswith("run COMPLETED (")
    assert program.stderr == ""


def test_a_failed_run_is_1_and_its_error_is_told(server: str, client: PyocoHttpClient) -> None:
    done = watch(server, client.submit_run("failing")["run_id"])
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("run FAILED")
    assert "The run is FAILED: task fail: ValueError: it broke" in done.stderr


def test_a_cancelled_run_is_1(server: str, client: PyocoHttpClient) -> None:
    run_id = client.submit_run("noop", tag="nobody")["run_id"]
    client.cancel_run(run_id)
    done = watch(server, run_id)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "run CANCELLED")


def test_json_is_a_snapshot_a_line(server: str, client: PyocoHttpClient) -> None:
    run_id = client.submit_run("chain", {"x": 4})["run_id"]
    done = watch(server, run_id, "--output", "json")
    assert done.returncode == 0
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    assert (runs[-1]["run_id"], runs[-1]["status"]) == (run_id, "COMPLETED")


def test_the_limit_is_1_and_says_that_the_run_goes_on(server: str, client: PyocoHttpClient) -> None:
    """Time enough to hear of the run once, else its state would be unknown."""
    run_id = client.submit_run("noop", tag="nobody")["run_id"]
    done = watch(server, run_id, "--timeout-sec", "2")
    assert (done.returncode, done.stdout) == (1, "run PENDING\n")
    assert f"run {run_id} is still PENDING after 2 s; it goes on" in done.stderr


def test_ctrl_c_is_130(server: str, client: PyocoHttpClient) -> None:
    run_id = client.submit_run("noop", tag="nobody")["run_id"]
    with started(command(run_id), PYOCO_SERVER=server) as program:
        program.writes("run PENDING")
        program.send(signal.SIGINT)
        assert program.end() == 130
    assert "the run continues: pyoco-client get --run-id" in program.stderr
    assert "Traceback" not in program.stderr


def test_an_unknown_run_is_told_at_once(server: str) -> None:
    done = watch(server, NO_RUN)
    assert done.returncode == 1
    assert "ERR-PYOCO-0005" in done.stderr


def test_a_person_sees_tasks_and_lines_live(server: str, client: PyocoHttpClient, tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    run_id = client.submit_run("waiting", {"path": str(go_on)})["run_id"]
    with on_terminal(command(run_id), PYOCO_SERVER=server) as terminal:
        terminal.shows("wait_for_file")
        terminal.shows("0 of 1 tasks")
        go_on.touch()
        assert terminal.end() == 0
    assert "1 of 1 tasks" in terminal.text
    assert "COMPLETED" in terminal.text


def test_a_person_reads_the_last_lines_and_the_error(server: str, client: PyocoHttpClient) -> None:
    run_id = client.submit_run("chain", {"x": 4})["run_id"]
    with on_terminal(command(run_id), PYOCO_SERVER=server) as terminal:
        assert terminal.end() == 0
    assert "loading 4" in terminal.text
    with on_terminal(command(client.submit_run("failing")["run_id"]), PYOCO_SERVER=server) as terminal:
        assert terminal.end() == 1
    assert "ValueError: it broke" in terminal.text
    assert "The run is FAILED" in terminal.text


def test_a_person_reads_why_a_run_waits_and_leaves_with_ctrl_c(server: str, client: PyocoHttpClient) -> None:
    run_id = client.submit_run("noop", tag="nobody")["run_id"]
    with on_terminal(command(run_id), PYOCO_SERVER=server) as terminal:
        terminal.shows("waiting for")
        terminal.shows("the tag 'nobody'")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
    assert "the run continues" in terminal.text
    assert "Traceback" not in terminal.text


def test_what_a_task_printed_cannot_steer_the_terminal(server: str, client: PyocoHttpClient) -> None:
    run_id = client.submit_run("speaking", {"text": "\x1b]0;owned\x07"})["run_id"]
    with on_terminal(command(run_id), PYOCO_SERVER=server) as terminal:
        assert terminal.end() == 0
    assert "owned" in terminal.text
    assert "\x1b]0;" not in terminal.text


def test_where_not_all_tasks_have_room_those_that_matter_are_shown() -> None:
    tasks = {f"t{number}": "SUCCEEDED" for number in range(50)}
    tasks |= {"t3": "FAILED", "t20": "RUNNING"} | {f"t{number}": "PENDING" for number in range(21, 50)}
    assert _most_important(tasks, 5) == ["t3", "t18", "t19", "t20", "t21"]
    assert _most_important(tasks, 100) == list(tasks)
    assert _most_important({"a": "SUCCEEDED", "b": "SUCCEEDED"}, 1) == ["b"]
