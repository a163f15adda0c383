"""`pyoco-client watch`: lines for a script, a live view on a terminal, and the exit code."""

import json
import signal
from pathlib import Path

from pyoco_server.http_client import PyocoHttpClient
from tests.support.commands import ClientCommand
from tests.support.terminal import CTRL_C

NO_RUN = "00000000-0000-4000-8000-000000000000"


def waiting_run(http: PyocoHttpClient) -> str:
    """A run that no worker executes."""
    return http.submit_run("noop", tag="nobody")["run_id"]


def test_lines_show_each_change_until_the_run_completes(
    client: ClientCommand, http: PyocoHttpClient, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    run_id = http.submit_run("waiting", {"path": str(go_on)})["run_id"]
    with client.start("watch", "--run-id", run_id) as program:
        program.writes("task wait_for_file RUNNING\n")
        go_on.touch()
        assert program.end() == 0
    lines = program.stdout.splitlines()
    assert len(lines) == len(set(lines))
    assert lines[-2].startswith("task wait_for_file SUCCEEDED (")
    assert lines[-1].startswith("run COMPLETED (")
    assert program.stderr == ""


def test_a_failed_run_exits_with_1_and_its_error(client: ClientCommand, http: PyocoHttpClient) -> None:
    done = client("watch", "--run-id", http.submit_run("failing")["run_id"])
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("run FAILED")
    assert "The run is FAILED: task fail: ValueError: it broke" in done.stderr


def test_a_cancelled_run_exits_with_1(client: ClientCommand, http: PyocoHttpClient) -> None:
    run_id = waiting_run(http)
    http.cancel_run(run_id)
    done = client("watch", "--run-id", run_id)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "run CANCELLED")


def test_json_has_a_snapshot_per_line(client: ClientCommand, http: PyocoHttpClient) -> None:
    run_id = http.submit_run("chain", {"x": 4})["run_id"]
    done = client("watch", "--run-id", run_id, "--output", "json")
    assert done.returncode == 0
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    assert (runs[-1]["run_id"], runs[-1]["status"]) == (run_id, "COMPLETED")


def test_the_time_limit_exits_with_1_and_not_the_run(client: ClientCommand, http: PyocoHttpClient) -> None:
    """Long enough to see the run once, else its state would be unknown."""
    run_id = waiting_run(http)
    done = client("watch", "--run-id", run_id, "--timeout-sec", "2")
    assert (done.returncode, done.stdout) == (1, "run PENDING\n")
    assert f"run {run_id} is still PENDING after 2 s; it goes on" in done.stderr


def test_ctrl_c_exits_with_130(client: ClientCommand, http: PyocoHttpClient) -> None:
    with client.start("watch", "--run-id", waiting_run(http)) as program:
        program.writes("run PENDING")
        program.send(signal.SIGINT)
        assert program.end() == 130
    assert "the run continues: pyoco-client get" in program.stderr
    assert "Traceback" not in program.stderr


def test_an_unknown_run_is_an_error(client: ClientCommand) -> None:
    assert "ERR-PYOCO-0005" in client.error("watch", "--run-id", NO_RUN)


def test_a_terminal_shows_tasks_live(client: ClientCommand, http: PyocoHttpClient, tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    run_id = http.submit_run("waiting", {"path": str(go_on)})["run_id"]
    with client.on_terminal("watch", "--run-id", run_id) as terminal:
        terminal.shows("wait_for_file")
        terminal.shows("0 of 1 tasks")
        go_on.touch()
        assert terminal.end() == 0
    assert "1 of 1 tasks" in terminal.text
    assert "COMPLETED" in terminal.text


def test_a_terminal_shows_the_error(client: ClientCommand, http: PyocoHttpClient) -> None:
    with client.on_terminal("watch", "--run-id", http.submit_run("failing")["run_id"]) as terminal:
        assert terminal.end() == 1
    assert "ValueError: it broke" in terminal.text
    assert "The run is FAILED" in terminal.text


def test_a_terminal_shows_printed_lines_without_control_characters(
    client: ClientCommand, http: PyocoHttpClient
) -> None:
    run_id = http.submit_run("speaking", {"text": "\x1b]0;owned\x07"})["run_id"]
    with client.on_terminal("watch", "--run-id", run_id) as terminal:
        assert terminal.end() == 0
    assert "owned" in terminal.text
    assert "\x1b]0;" not in terminal.text


def test_a_terminal_shows_why_a_run_waits_until_ctrl_c(client: ClientCommand, http: PyocoHttpClient) -> None:
    with client.on_terminal("watch", "--run-id", waiting_run(http)) as terminal:
        terminal.shows("waiting for")
        terminal.shows("the tag 'nobody'")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
    assert "the run continues" in terminal.text
    assert "Traceback" not in terminal.text
