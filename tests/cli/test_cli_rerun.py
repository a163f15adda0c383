"""`pyoco-client rerun`, and the limits and keys of its submits."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_cli_client import GOOD_YAML, NO_RUN
from tests.support.commands import call_client
from tests.support.http_stub import answer, stub
from tests.support.places import FLOWS
from tests.support.programs import CLIENT, WORKER, run_command, running
from tests.support.running.gateway import gateway_beside


@pytest.fixture(scope="module")
def server(_unused_accounts: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a gateway with a worker behind it."""
    folder = tmp_path_factory.mktemp("rerun")
    nats_url = next(_unused_accounts)
    with (
        gateway_beside(nats_url, folder) as url,
        running(WORKER, "--flows", str(FLOWS), "--nats-url", nats_url, cwd=folder),
    ):
        yield url


def client(server: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return call_client(*arguments, PYOCO_SERVER=server)


@pytest.fixture(scope="module")
def ended_run(server: str) -> str:
    done = client(server, "submit", "--flow-name", "chain", "--param", "x=4", "--wait")
    assert done.returncode == 0, done.stderr
    run_id: str = json.loads(done.stdout)["run_id"]
    return run_id


def test_a_rerun_answers_as_a_submit_does(server: str, ended_run: str) -> None:
    done = run_command(CLIENT, "rerun", "--run-id", ended_run, PYOCO_SERVER=server)
    accepted = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert (accepted["status"], accepted["origin_run_id"]) == ("PENDING", ended_run)
    shown = client(server, "rerun", "--run-id", ended_run, "--output", "table")
    assert (shown.returncode, "PENDING" in shown.stdout) == (0, True)


def test_a_rerun_is_waited_for(server: str, ended_run: str) -> None:
    done = client(server, "rerun", "--run-id", ended_run, "--from", "start", "--wait", "--timeout-sec", "30")
    run = json.loads(done.stdout)
    assert (done.returncode, run["status"], run["params"]) == (0, "COMPLETED", {"x": 4})
    assert (run["origin_run_id"], run["rerun_mode"]) == (ended_run, "start")


def test_a_rerun_from_what_failed_or_from_a_task_says_so(server: str, ended_run: str) -> None:
    failed = json.loads(client(server, "submit", "--flow-name", "failing", "--wait").stdout)["run_id"]
    again = client(server, "rerun", "--run-id", failed, "--from", "failed", "--wait")
    run = json.loads(again.stdout)
    assert (again.returncode, run["status"], run["rerun_mode"]) == (1, "FAILED", "failed")
    done = client(server, "rerun", "--run-id", ended_run, "--task", "store", "--wait")
    run = json.loads(done.stdout)
    assert (done.returncode, run["status"]) == (0, "COMPLETED")
    assert (run["rerun_mode"], run["rerun_task"]) == ("task", "store")
    shown = client(server, "get", "--run-id", run["run_id"], "--output", "table").stdout
    assert f"{ended_run} (from store)" in shown


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--task", "stroe"), "task='stroe': the run has no such task. Did you mean 'store'?"),
        (("--from", "failed"), "nothing failed in this run"),
        (("--from", "failed", "--task", "store"), "use either --from or --task"),
        (("--from", "task"), "'task' is not one of 'start', 'failed'"),
        (("--timeout-sec", "3"), "add --wait"),
    ],
)
def test_a_rerun_that_makes_no_sense_is_explained(
    server: str, ended_run: str, arguments: tuple[str, ...], complaint: str
) -> None:
    done = client(server, "rerun", "--run-id", ended_run, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert complaint in done.stderr


def test_a_run_that_has_not_ended_is_explained(server: str) -> None:
    submitted = client(server, "submit", "--flow-name", "noop", "--tag", "nobody")
    run_id = json.loads(submitted.stdout)["run_id"]
    done = client(server, "rerun", "--run-id", run_id)
    assert done.returncode == 1
    assert "ERR-PYOCO-0025" in done.stderr
    assert "is PENDING; wait for its end" in done.stderr


@pytest.mark.parametrize("command", ["submit", "submit-yaml"])
def test_a_submit_carries_a_limit_and_a_key(server: str, command: str, tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(GOOD_YAML)
    words: tuple[str, ...] = (
        command,
        "--flow-name",
        "noop",
        "--tag",
        "nobody",
        "--idempotency-key",
        f"k-{command}",
    )
    words += ("--workflow-file", str(file)) if command == "submit-yaml" else ()
    first = client(server, *words, "--run-timeout-sec", "30")
    again = client(server, *words, "--run-timeout-sec", "30.0")
    assert (first.returncode, again.returncode) == (0, 0), first.stderr + again.stderr
    assert json.loads(first.stdout) == json.loads(again.stdout)
    run = json.loads(client(server, "get", "--run-id", json.loads(first.stdout)["run_id"]).stdout)
    assert run["timeout_sec"] == 30
    other = client(server, *words, "--run-timeout-sec", "31")
    assert other.returncode == 1
    assert "ERR-PYOCO-0026" in other.stderr


@pytest.mark.parametrize("limit", ["0", "-1", "nan", "inf", "soon", "2592001"])
def test_a_limit_that_is_none_is_a_usage_error(limit: str) -> None:
    done = call_client("submit", "--flow-name", "noop", "--run-timeout-sec", limit)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"'{limit}': expected seconds, more than 0 and at most 2592000" in done.stderr


@pytest.mark.parametrize("key", ["", "a b", "ключ", "x" * 256])
def test_a_key_that_is_none_is_a_usage_error(key: str) -> None:
    done = call_client("submit", "--flow-name", "noop", "--idempotency-key", key)
    assert (done.returncode, done.stdout) == (1, "")
    assert "expected 1 to 255 visible ASCII characters" in done.stderr


def test_a_submit_without_a_key_sends_none() -> None:
    with stub([answer(run_id=NO_RUN, status="PENDING")]) as (url, seen):
        call_client("submit", "--flow-name", "noop", "--server", url)
        call_client("submit", "--flow-name", "noop", "--server", url, "--idempotency-key", "k")
    assert [headers.get("idempotency-key") for headers in seen] == [None, "k"]
