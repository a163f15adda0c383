"""`pyoco-client submit`, `get`, `tasks` and `cancel`: input, output, exit codes."""

import json
import os
import re
import signal
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from pyoco_server.errors.error_table import Err
from tests.support.commands import ClientCommand, call_client
from tests.support.http_stub import answer, stub, unavailable, watched
from tests.support.waiting import LIMIT_SEC

NO_RUN = "00000000-0000-4000-8000-000000000000"
GOOD_YAML = "flow: {graph: note}\ntasks:\n  note: {callable: 'noting:note'}\n"


def test_submit_prints_the_run_id_as_json(client: ClientCommand) -> None:
    done = client("submit", "--flow-name", "noop")
    accepted = json.loads(done.stdout)
    assert (done.returncode, accepted["status"], done.stderr) == (0, "PENDING", "")
    assert accepted["run_id"] in client("get", "--run-id", accepted["run_id"]).stdout


def test_params_of_three_sources_are_merged_and_the_later_wins(client: ClientCommand, tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("a: 1\nb: 1\nc: 1\nlist: [1, two]\n")
    accepted = client.json(
        *("submit", "--flow-name", "noop", "--tag", "default", "--tags", "night, small"),
        *("--params-file", "params.yaml", "--params", '{"b": 2, "c": 2}'),
        *("--param", "c=3", "--param", "text=no json", "--param", 'number="3"', "--param", "eq=a=b"),
        cwd=tmp_path,
    )
    run = client.json("get", "--run-id", accepted["run_id"])
    assert run["params"] == {
        **{"a": 1, "b": 2, "c": 3, "list": [1, "two"]},
        **{"text": "no json", "number": "3", "eq": "a=b"},
    }
    assert (run["tag"], run["tags"]) == ("default", ["night", "small"])


def test_submit_yaml_runs_the_file(client: ClientCommand, tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(GOOD_YAML)
    words = ("submit-yaml", "--workflow-file", "flow.yaml", "--flow-name", "noted", "--wait")
    run = client.json(*words, cwd=tmp_path)
    assert (run["status"], run["flow_name"]) == ("COMPLETED", "noted")


def test_a_mistake_in_a_flow_yaml_is_shown_with_line_and_column(
    client: ClientCommand, tmp_path: Path
) -> None:
    (tmp_path / "flow.yaml").write_text("flow:\n  graph: note >> nte\ntasks:\n  note: {callable: 'm:f'}\n")
    words = ("submit-yaml", "--workflow-file", "flow.yaml", "--flow-name", "typo")
    error = client.error(*words, cwd=tmp_path)
    assert "ERR-PYOCO-0002 The request is not valid (HTTP 422, POST " in error
    assert "- flow.graph='nte' (line 2, column 18): there is no task 'nte'" in error
    assert error.count("there is no task") == 1
    assert error.count(Err.INVALID_REQUEST.cure_en) == 1


@pytest.mark.parametrize("command", ["submit", "submit-yaml"])
def test_a_submit_sends_a_time_limit_and_an_idempotency_key(
    client: ClientCommand, command: str, tmp_path: Path
) -> None:
    (tmp_path / "flow.yaml").write_text(GOOD_YAML)
    file = ("--workflow-file", "flow.yaml") if command == "submit-yaml" else ()
    words = (command, *file, "--flow-name", "noop", "--tag", "nobody", "--idempotency-key", f"k-{command}")
    first = client.json(*words, "--run-timeout-sec", "30", cwd=tmp_path)
    assert client.json(*words, "--run-timeout-sec", "30.0", cwd=tmp_path) == first
    assert client.json("get", "--run-id", first["run_id"])["timeout_sec"] == 30
    assert "ERR-PYOCO-0026" in client.error(*words, "--run-timeout-sec", "31", cwd=tmp_path)


@pytest.mark.parametrize("command", ["submit", "submit-yaml", "rerun"])
def test_a_run_starts_later(client: ClientCommand, ended_run: str, command: str, tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(GOOD_YAML)
    words = {
        "submit": ("submit", "--flow-name", "noop"),
        "submit-yaml": ("submit-yaml", "--flow-name", "noop", "--workflow-file", "flow.yaml"),
        "rerun": ("rerun", ended_run),
    }[command]
    at = datetime.now().astimezone().replace(microsecond=0) + timedelta(hours=5)
    for start in (("--in", "5h"), ("--at", at.isoformat()), ("--at", at.replace(tzinfo=None).isoformat())):
        accepted = client.json(*words, *start, cwd=tmp_path)
        assert accepted["status"] == "SCHEDULED"
        run = client.json("get", accepted["run_id"])
        assert abs(run["start_at"] - at.timestamp()) < LIMIT_SEC
        shown = client.table("get", accepted["run_id"])
        assert "starts at" in shown
        assert "The run starts in" in shown
        assert client.json("cancel", accepted["run_id"], "--wait")["status"] == "CANCELLED"


def test_get_and_tasks_show_a_run(client: ClientCommand, ended_run: str) -> None:
    run = client.json("get", "--run-id", ended_run)
    assert (run["status"], "task_records" in run) == ("COMPLETED", False)
    run = client.json("get", "--run-id", ended_run, "--include", "records")
    assert run["task_records"]["store"]["output"] == {"stored": 5}
    tasks = client.json("tasks", "--run-id", ended_run)
    assert tasks["tasks"] == {"load": "SUCCEEDED", "store": "SUCCEEDED"}


def test_tables_show_the_run_and_the_results_of_its_tasks(client: ClientCommand, ended_run: str) -> None:
    shown = client.table("get", "--run-id", ended_run)
    for word in (ended_run, "chain", "COMPLETED", '{"x": 4}', "default", "load", "SUCCEEDED"):
        assert word in shown
    shown = client.table("tasks", "--run-id", ended_run)
    rows = [line.split()[:2] for line in shown.splitlines()]
    assert ["load", "SUCCEEDED"] in rows
    assert ["store", "SUCCEEDED"] in rows
    assert '{"stored": 5}' in shown
    assert "| loading 4" in shown


def test_a_terminal_shows_a_table_unless_json_is_requested(client: ClientCommand, ended_run: str) -> None:
    with client.on_terminal("get", "--run-id", ended_run) as terminal:
        assert terminal.end() == 0, terminal.text
    assert terminal.text.lstrip().startswith("\x1b[1mrun_id")
    with client.on_terminal("get", "--run-id", ended_run, "--output", "json") as terminal:
        assert terminal.end() == 0, terminal.text
    assert json.loads(terminal.text)["run_id"] == ended_run


def test_the_server_is_given_before_or_after_the_subcommand_or_in_the_environment(
    server: str, ended_run: str
) -> None:
    get, nowhere = ("get", "--run-id", ended_run), "http://127.0.0.1:1"
    assert call_client("--server", server, *get).returncode == 0
    assert call_client(*get, "--server", server).returncode == 0
    assert call_client("--server", nowhere, *get, "--server", server).returncode == 0
    assert call_client("--server", server, *get, PYOCO_SERVER=nowhere).returncode == 0
    assert call_client("--server", nowhere, *get, PYOCO_SERVER=server).returncode == 1


def test_wait_exits_with_0_only_for_a_completed_run(client: ClientCommand) -> None:
    completed = client("submit", "--flow-name", "noop", "--wait")
    assert (completed.returncode, json.loads(completed.stdout)["status"]) == (0, "COMPLETED")
    assert f"Submitted run {json.loads(completed.stdout)['run_id']}" in completed.stderr
    failed = client("submit", "--flow-name", "failing", "--wait")
    assert (failed.returncode, json.loads(failed.stdout)["status"]) == (1, "FAILED")
    assert "The run is FAILED: task fail: ValueError: it broke" in failed.stderr


def test_wait_shows_the_result_in_a_table_and_the_snapshot_as_json(client: ClientCommand) -> None:
    chain = ("submit", "--flow-name", "chain", "--param", "x=4", "--wait")
    assert re.search(r'^store returned +\{"stored": 5\} *$', client.table(*chain), re.MULTILINE)
    assert "task_records" not in client.json(*chain)


def test_a_failed_run_shows_its_error_once_and_without_control_characters(client: ClientCommand) -> None:
    words = ("submit", "--flow-name", "failing", "--wait", "--output", "table")
    done = client(*words, "--param", "message=\x1b[2Jgone")
    assert (done.returncode, (done.stdout + done.stderr).count("ValueError: \ufffd[2Jgone")) == (1, 1)
    assert done.stderr.endswith("The run is FAILED\n")
    assert "\x1b" not in done.stdout + done.stderr


def test_a_result_that_cannot_be_read_does_not_fail_a_completed_run() -> None:
    accepted = answer(run_id=NO_RUN, status="PENDING")
    ended = watched("1", run_id=NO_RUN, flow_name="x", status="COMPLETED", params={})
    submit = ("submit", "--flow-name", "x", "--wait", "--output", "table")
    with stub([accepted, ended, unavailable()]) as (url, _):
        done = call_client(*submit, "--server", url)
    assert done.returncode == 0, done.stderr
    assert "COMPLETED" in done.stdout
    assert "Cannot show what the tasks returned: ERR-PYOCO-0003" in done.stderr


def test_wait_ends_at_its_time_limit(client: ClientCommand) -> None:
    """Long enough to see the run once, else its state would be unknown."""
    words = ("submit", "--flow-name", "noop", "--tag", "nobody", "--wait", "--timeout-sec", "2")
    assert "is still PENDING after 2 s; it goes on: pyoco-client get " in client.error(*words)


def test_ctrl_c_ends_a_wait_with_130_and_not_the_run(client: ClientCommand) -> None:
    with client.start("submit", "--flow-name", "noop", "--tag", "nobody", "--wait") as program:
        program.writes("Submitted run")
        program.send(signal.SIGINT)
        assert program.end() == 130
    assert "the run continues: pyoco-client get" in program.stderr
    assert "Traceback" not in program.stderr


def test_cancel_stops_a_run_and_waits_for_its_end(client: ClientCommand, tmp_path: Path) -> None:
    words = ("submit", "--flow-name", "waiting", "--param", f"path={tmp_path / 'never'}")
    run_id = client.json(*words)["run_id"]
    run = client.json("cancel", "--run-id", run_id, "--reason", "not needed", "--wait")
    assert (run["status"], run["cancel_reason"]) == ("CANCELLED", "not needed")
    assert client.json("cancel", "--run-id", run_id)["status"] == "CANCELLED"
    assert Err.RUN_NOT_FOUND.err_id in client.error("cancel", "--run-id", NO_RUN)


def test_an_unknown_run_is_explained_in_the_language_of_the_terminal(client: ClientCommand) -> None:
    spec, get = Err.RUN_NOT_FOUND, ("get", "--run-id", NO_RUN)
    english = client.error(*get)
    assert english.startswith(f"{spec.err_id} {spec.en} (HTTP 404, GET {client.server}/runs/{NO_RUN})")
    japanese = client.error(*get, LC_ALL="ja_JP.UTF-8")
    assert japanese.startswith(f"{spec.err_id} {spec.ja} (HTTP 404")
    assert spec.cure_ja in japanese


def test_an_unreachable_gateway_is_explained_with_its_address_and_the_cure() -> None:
    spec = Err.GATEWAY_UNREACHABLE
    error = ClientCommand("http://127.0.0.1:1").error("get", "--run-id", NO_RUN)
    assert f"{spec.err_id} {spec.en}: http://127.0.0.1:1: " in error
    assert spec.cure_en in error
    assert "Traceback" not in error


def test_the_api_key_comes_from_the_environment_or_the_command_line() -> None:
    get = ("get", "--run-id", NO_RUN, "--output", "json")
    with stub([answer(run_id=NO_RUN)]) as (url, seen):
        call_client(*get, "--server", url, PYOCO_API_KEY="of-the-environment")
        call_client(*get, "--server", url, "--api-key", "given", PYOCO_API_KEY="of-the-environment")
        call_client("--api-key", "before", *get, "--server", url)
        call_client(*get, "--server", url, "--api-key", "k", PYOCO_HTTP_API_KEY_HEADER="X-Team")
    keys = [headers.get("x-api-key") or headers.get("x-team") for headers in seen]
    assert keys == ["of-the-environment", "given", "before", "k"]


def test_a_submit_sends_the_given_idempotency_key_or_one_of_its_own() -> None:
    submit = ("submit", "--flow-name", "noop")
    with stub([answer(run_id=NO_RUN, status="PENDING")]) as (url, seen):
        call_client(*submit, "--server", url)
        call_client(*submit, "--server", url)
        call_client(*submit, "--server", url, "--idempotency-key", "k")
    first, second, given = [headers["idempotency-key"] for headers in seen]
    assert first != second
    assert given == "k"


@pytest.fixture
def full_disk() -> Iterator[int]:
    with open("/dev/full", "w") as full:
        yield full.fileno()


@pytest.mark.parametrize("more", [(), ("--output", "table")], ids=["json", "table"])
def test_output_that_cannot_be_written_is_reported_in_one_line(
    client: ClientCommand, ended_run: str, full_disk: int, more: tuple[str, ...]
) -> None:
    done = client.run_into(full_disk, "get", "--run-id", ended_run, *more)
    assert (done.returncode, done.stderr) == (1, "I/O error: No space left on device\n")


def test_a_version_that_cannot_be_written_is_reported_in_one_line(full_disk: int) -> None:
    done = ClientCommand("http://127.0.0.1:1").run_into(full_disk, "--version")
    assert (done.returncode, done.stderr) == (1, "I/O error: No space left on device\n")


def test_a_reader_that_closes_its_pipe_causes_no_message(client: ClientCommand, ended_run: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        done = client.run_into(closed.fileno(), "get", "--run-id", ended_run)
    assert (done.returncode, done.stderr) == (1, "")
