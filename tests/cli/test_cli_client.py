"""`pyoco-client` against a real gateway: its input forms, its output, its exit codes."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from pyoco_server.errors.error_table import Err
from tests.support.commands import call_client
from tests.support.http_stub import answer, stub, unavailable, watched
from tests.support.places import FLOWS
from tests.support.programs import CLIENT, SERVER, WORKER, environment, run_command, running, started
from tests.support.terminal import on_terminal
from tests.support.waiting import LIMIT_SEC

NO_RUN = "00000000-0000-4000-8000-000000000000"
GOOD_YAML = "flow: {graph: note}\ntasks:\n  note: {callable: 'noting:note'}\n"


@pytest.fixture(scope="module")
def server(_unused_accounts: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a gateway with a worker behind it."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "noting.py").write_text("def note():\n    return 'noted'\n")
    nats_url = next(_unused_accounts)
    with (
        running(SERVER, "up", "--port", "0", "--nats-url", nats_url, cwd=folder) as (_, gateway),
        running(WORKER, "--flows", str(FLOWS), "--nats-url", nats_url, cwd=folder),
    ):
        yield gateway["url"]


@pytest.fixture(scope="module")
def ended_run(server: str) -> str:
    done = run_command(
        CLIENT, "submit", "--flow-name", "chain", "--param", "x=4", "--wait", PYOCO_SERVER=server
    )
    assert done.returncode == 0, done.stderr
    run_id: str = json.loads(done.stdout)["run_id"]
    return run_id


def client(server: str, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return call_client(*arguments, cwd=cwd, PYOCO_SERVER=server)


def test_submit_answers_with_the_run_id_as_json_for_a_script(server: str) -> None:
    done = client(server, "submit", "--flow-name", "noop")
    accepted = json.loads(done.stdout)
    assert (done.returncode, accepted["status"], done.stderr) == (0, "PENDING", "")
    assert accepted["run_id"] in client(server, "get", "--run-id", accepted["run_id"]).stdout


def test_params_of_three_sources_are_put_together_and_the_later_wins(server: str, tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("a: 1\nb: 1\nc: 1\nlist: [1, two]\n")
    done = client(
        server,
        *("submit", "--flow-name", "noop", "--tag", "default", "--tags", "night, small"),
        *("--params-file", "params.yaml", "--params", '{"b": 2, "c": 2}'),
        *("--param", "c=3", "--param", "text=no json", "--param", 'number="3"', "--param", "eq=a=b"),
        cwd=tmp_path,
    )
    run = json.loads(client(server, "get", "--run-id", json.loads(done.stdout)["run_id"]).stdout)
    assert run["params"] == {
        **{"a": 1, "b": 2, "c": 3, "list": [1, "two"]},
        **{"text": "no json", "number": "3", "eq": "a=b"},
    }
    assert (run["tag"], run["tags"]) == ("default", ["night", "small"])


def test_submit_yaml_runs_the_file(server: str, tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(GOOD_YAML)
    done = client(
        server, "submit-yaml", "--workflow-file", "flow.yaml", "--flow-name", "noted", "--wait", cwd=tmp_path
    )
    run = json.loads(done.stdout)
    assert (done.returncode, run["status"], run["flow_name"]) == (0, "COMPLETED", "noted")


def test_get_and_tasks_show_a_run(server: str, ended_run: str) -> None:
    run = json.loads(client(server, "get", "--run-id", ended_run).stdout)
    assert (run["status"], "task_records" in run) == ("COMPLETED", False)
    run = json.loads(client(server, "get", "--run-id", ended_run, "--include", "records").stdout)
    assert run["task_records"]["store"]["output"] == {"stored": 5}
    tasks = json.loads(client(server, "tasks", "--run-id", ended_run).stdout)
    assert tasks["tasks"] == {"load": "SUCCEEDED", "store": "SUCCEEDED"}


def test_a_table_has_what_a_person_looks_for(server: str, ended_run: str) -> None:
    shown = client(server, "get", "--run-id", ended_run, "--output", "table").stdout
    for word in (ended_run, "chain", "COMPLETED", '{"x": 4}', "default", "load", "SUCCEEDED"):
        assert word in shown
    shown = client(server, "tasks", "--run-id", ended_run, "--output", "table").stdout
    lines = [line.split() for line in shown.splitlines()]
    assert ["load", "SUCCEEDED"] in [words[:2] for words in lines]
    assert ["store", "SUCCEEDED"] in [words[:2] for words in lines]
    assert '{"stored": 5}' in shown
    assert "| loading 4" in shown


def test_a_terminal_gets_a_table_unless_json_is_asked_for(server: str, ended_run: str) -> None:
    assert on_a_terminal(server, "get", "--run-id", ended_run).lstrip().startswith("\x1b[1mrun_id")
    asked = on_a_terminal(server, "get", "--run-id", ended_run, "--output", "json")
    assert json.loads(asked)["run_id"] == ended_run


def on_a_terminal(server: str, *arguments: str) -> str:
    with on_terminal([sys.executable, "-m", CLIENT, *arguments], PYOCO_SERVER=server) as terminal:
        assert terminal.end() == 0, terminal.text
    return terminal.text


def test_what_a_task_printed_cannot_steer_the_terminal(server: str) -> None:
    done = client(
        server,
        *("submit", "--flow-name", "failing", "--wait", "--output", "table"),
        *("--param", "message=\x1b[2Jgone"),
    )
    assert done.returncode == 1
    assert "[2Jgone" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_the_server_is_named_before_or_after_the_subcommand_or_in_the_environment(
    server: str, ended_run: str
) -> None:
    get, nowhere = ("get", "--run-id", ended_run), "http://127.0.0.1:1"
    assert call_client("--server", server, *get).returncode == 0
    assert call_client(*get, "--server", server).returncode == 0
    assert call_client(*get, PYOCO_SERVER=server).returncode == 0
    assert call_client("--server", nowhere, *get, "--server", server).returncode == 0
    assert call_client("--server", server, *get, PYOCO_SERVER=nowhere).returncode == 0
    assert call_client("--server", nowhere, *get, PYOCO_SERVER=server).returncode == 1


def test_wait_is_0_only_for_a_completed_run(server: str) -> None:
    completed = client(server, "submit", "--flow-name", "noop", "--wait")
    assert (completed.returncode, json.loads(completed.stdout)["status"]) == (0, "COMPLETED")
    assert f"Submitted run {json.loads(completed.stdout)['run_id']}" in completed.stderr
    failed = client(server, "submit", "--flow-name", "failing", "--wait")
    assert (failed.returncode, json.loads(failed.stdout)["status"]) == (1, "FAILED")
    assert "The run is FAILED: task fail: ValueError: it broke" in failed.stderr


def test_a_person_who_waits_sees_the_result_and_a_script_the_snapshot(server: str) -> None:
    chain = ("submit", "--flow-name", "chain", "--param", "x=4", "--wait")
    done = client(server, *chain, "--output", "table")
    assert done.returncode == 0
    assert re.search(r'^store returned +\{"stored": 5\} *$', done.stdout, re.MULTILINE)
    assert "task_records" not in json.loads(client(server, *chain).stdout)


def test_a_failed_run_tells_its_error_once(server: str) -> None:
    done = client(server, "submit", "--flow-name", "failing", "--wait", "--output", "table")
    assert (done.returncode, (done.stdout + done.stderr).count("it broke")) == (1, 1)
    assert done.stderr.endswith("The run is FAILED\n")


def test_a_result_that_cannot_be_fetched_does_not_fail_a_completed_run() -> None:
    accepted = answer(run_id=NO_RUN, status="PENDING")
    ended = watched("1", run_id=NO_RUN, flow_name="x", status="COMPLETED", params={})
    submit = ("submit", "--flow-name", "x", "--wait", "--output", "table")
    with stub([accepted, ended, unavailable()]) as (url, _):
        done = call_client(*submit, "--server", url)
    assert done.returncode == 0, done.stderr
    assert "COMPLETED" in done.stdout
    assert "Cannot show what the tasks returned: ERR-PYOCO-0003" in done.stderr


def test_wait_gives_up_at_its_limit(server: str) -> None:
    """Time enough to hear of the run once, else its state would be unknown."""
    done = client(server, "submit", "--flow-name", "noop", "--tag", "nobody", "--wait", "--timeout-sec", "2")
    assert (done.returncode, done.stdout) == (1, "")
    assert "is still PENDING after 2 s; it goes on: pyoco-client get --run-id " in done.stderr


def test_ctrl_c_ends_a_wait_with_130_and_leaves_the_run_alone(server: str) -> None:
    command = [sys.executable, "-m", CLIENT, "submit", "--flow-name", "noop", "--tag", "nobody", "--wait"]
    with started(command, PYOCO_SERVER=server) as program:
        program.writes("Submitted run")
        program.send(signal.SIGINT)
        assert program.end() == 130
    assert "the run continues: pyoco-client get --run-id" in program.stderr
    assert "Traceback" not in program.stderr


def test_cancel_stops_a_run_and_waits_for_its_end(server: str, tmp_path: Path) -> None:
    submitted = client(server, "submit", "--flow-name", "waiting", "--param", f"path={tmp_path / 'never'}")
    run_id = json.loads(submitted.stdout)["run_id"]
    done = client(server, "cancel", "--run-id", run_id, "--reason", "not needed", "--wait")
    run = json.loads(done.stdout)
    assert (done.returncode, run["status"], run["cancel_reason"]) == (0, "CANCELLED", "not needed")
    again = client(server, "cancel", "--run-id", run_id)
    assert (again.returncode, json.loads(again.stdout)["status"]) == (0, "CANCELLED")


def test_cancel_of_a_run_that_is_not_there_fails(server: str) -> None:
    done = client(server, "cancel", "--run-id", NO_RUN)
    assert done.returncode == 1
    assert Err.RUN_NOT_FOUND.err_id in done.stderr


def test_a_mistake_in_a_flow_yaml_is_shown_with_line_and_column(server: str, tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text("flow:\n  graph: note >> nte\ntasks:\n  note: {callable: 'm:f'}\n")
    done = client(server, "submit-yaml", "--workflow-file", "flow.yaml", "--flow-name", "typo", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "ERR-PYOCO-0002 The request is not valid (HTTP 422, POST " in done.stderr
    assert "- flow.graph='nte' (line 2, column 18): there is no task 'nte'" in done.stderr
    assert done.stderr.count("there is no task") == 1
    assert done.stderr.count(Err.INVALID_REQUEST.cure_en) == 1


def test_an_unknown_run_is_explained_in_the_language_of_the_terminal(server: str) -> None:
    spec = Err.RUN_NOT_FOUND
    english = client(server, "get", "--run-id", NO_RUN)
    assert (english.returncode, english.stdout) == (1, "")
    assert english.stderr.startswith(f"{spec.err_id} {spec.en} (HTTP 404, GET {server}/runs/{NO_RUN})")
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        language = {variable: "ja_JP.UTF-8"}
        japanese = call_client("get", "--run-id", NO_RUN, "--server", server, cwd=None, **language)
        assert japanese.stderr.startswith(f"{spec.err_id} {spec.ja} (HTTP 404")
        assert spec.cure_ja in japanese.stderr


def test_no_gateway_is_explained_with_the_address_and_the_cure() -> None:
    spec = Err.GATEWAY_UNREACHABLE
    done = call_client("get", "--run-id", NO_RUN, "--server", "http://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{spec.err_id} {spec.en}: http://127.0.0.1:1: " in done.stderr
    assert spec.cure_en in done.stderr
    assert "Traceback" not in done.stderr


def test_the_api_key_comes_from_the_environment_or_the_command_line() -> None:
    get = ("get", "--run-id", NO_RUN, "--output", "json")
    with stub([answer(run_id=NO_RUN)]) as (url, seen):
        call_client(*get, "--server", url, PYOCO_API_KEY="of-the-environment")
        call_client(*get, "--server", url, "--api-key", "given", PYOCO_API_KEY="of-the-environment")
        call_client("--api-key", "before", *get, "--server", url)
        call_client(*get, "--server", url, "--api-key", "k", PYOCO_HTTP_API_KEY_HEADER="X-Team")
    keys = [headers.get("x-api-key") or headers.get("x-team") for headers in seen]
    assert keys == ["of-the-environment", "given", "before", "k"]


def test_an_output_that_cannot_be_written_is_said_in_one_line(server: str, ended_run: str) -> None:
    for arguments in (
        ("get", "--run-id", ended_run),
        ("get", "--run-id", ended_run, "--output", "table"),
        ("--version",),
    ):
        with open("/dev/full", "w") as full:
            code, stderr = writing_to(full, server, *arguments)
        assert (code, stderr) == (1, "I/O error: No space left on device\n")


def test_a_reader_who_leaves_early_is_no_failure_to_speak_of(server: str, ended_run: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as nobody:
        assert writing_to(nobody, server, "get", "--run-id", ended_run) == (1, "")


def writing_to(target: TextIO, server: str, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", CLIENT, *arguments],
        env=environment(PYOCO_SERVER=server),
        stdout=target,
        stderr=subprocess.PIPE,
        text=True,
        timeout=LIMIT_SEC,
        check=False,
    )
    return done.returncode, done.stderr
