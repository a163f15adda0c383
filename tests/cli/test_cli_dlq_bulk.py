"""`pyoco-client explain`, `dlq` and `bulk`: why, what ended badly, and many at once."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from pyoco_server.http_client import PyocoHttpClient
from tests.support.commands import call_client
from tests.support.http_stub import answer, stub
from tests.support.places import FLOWS
from tests.support.programs import CLIENT, WORKER, run_command, running
from tests.support.running.gateway import gateway_beside
from tests.support.terminal import CTRL_C, on_terminal
from tests.support.waiting import eventually_sync


@pytest.fixture(scope="module")
def server(_unused_accounts: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, nats_url = tmp_path_factory.mktemp("dlq"), next(_unused_accounts)
    with (
        gateway_beside(nats_url, folder) as url,
        running(WORKER, "--flows", str(FLOWS), "--nats-url", nats_url, cwd=folder),
        PyocoHttpClient(url) as client,
    ):
        eventually_sync(lambda: client.health()["index"]["ready"], describe="the index is ready")
        yield url


@pytest.fixture
def http(server: str) -> Iterator[PyocoHttpClient]:
    with PyocoHttpClient(server) as client:
        yield client


def client(server: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return call_client(*arguments, PYOCO_SERVER=server)


def answered(server: str, *arguments: str) -> Any:
    done = client(server, *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def failed_runs(http: PyocoHttpClient, label: str, count: int = 1) -> list[str]:
    """Runs that failed, whose letters are there."""
    ids = [
        http.submit_run("failing", {"message": label}, tags=["default", label])["run_id"]
        for _ in range(count)
    ]
    for run_id in ids:
        http.wait(run_id, 20)
        eventually_sync(lambda: http.list_dlq(run_id=run_id)["items"], describe="its letter")  # noqa: B023
    return ids


def waiting_runs(http: PyocoHttpClient, label: str, count: int) -> list[str]:
    return [http.submit_run("noop", tag="nobody", tags=[label])["run_id"] for _ in range(count)]


def test_a_run_that_waits_is_explained_with_what_to_do(server: str, http: PyocoHttpClient) -> None:
    (run_id,) = waiting_runs(http, "explained", 1)
    done = run_command(CLIENT, "explain", "--run-id", run_id, PYOCO_SERVER=server)
    assert (done.returncode, done.stderr) == (0, "")
    explanation = json.loads(done.stdout)
    assert explanation["findings"][0]["code"] == "no_worker_for_tag"
    shown = client(server, "explain", "--run-id", run_id, "--output", "table").stdout
    assert explanation["summary"].split(";")[0] in shown
    assert "pyoco-worker --tag nobody" in shown
    both = client(server, "get", "--run-id", run_id, "--output", "table").stdout
    assert "no_worker_for_tag" in both
    assert "flow_name" in both
    assert "findings" not in answered(server, "get", "--run-id", run_id)


def test_a_run_that_has_ended_is_shown_without_an_explanation(server: str, http: PyocoHttpClient) -> None:
    run_id = http.wait(http.submit_run("noop")["run_id"], 20)["run_id"]
    assert "[completed]" not in client(server, "get", "--run-id", run_id, "--output", "table").stdout
    assert "completed" in client(server, "explain", "--run-id", run_id, "--output", "table").stdout


def test_letters_are_listed_and_shown(server: str, http: PyocoHttpClient) -> None:
    (run_id,) = failed_runs(http, "listed")
    (letter,) = answered(server, "dlq", "list", "--run-id", run_id)
    assert (letter["reason"], letter["run_id"]) == ("execution_error", run_id)
    assert answered(server, "dlq", "get", "--seq", str(letter["seq"])) == letter
    assert answered(server, "dlq", "list", "--search", "LISTED", "--all") == [letter]
    assert answered(server, "dlq", "list", "--search", "listed", "--until", "1h") == []
    words = ("--reason", "execution_error", "--reason", "timeout", "--flow", "failing", "--since", "1h")
    assert letter in answered(server, "dlq", "list", *words, "--tag", "default", "--limit", "1000")
    table = client(server, "dlq", "list", "--run-id", run_id, "--output", "table").stdout
    assert f"{letter['seq']} " in table
    assert "listed" in table
    one = client(server, "dlq", "get", "--seq", str(letter["seq"]), "--output", "table").stdout
    assert run_id in one


def test_one_letter_is_replayed_and_deleted(server: str, http: PyocoHttpClient) -> None:
    (run_id,) = failed_runs(http, "replayed")
    seq = str(http.list_dlq(run_id=run_id)["items"][0]["seq"])
    again = answered(server, "dlq", "replay", "--seq", seq, "--from", "failed")
    assert again["origin_run_id"] == run_id
    assert answered(server, "dlq", "delete", "--seq", seq) == {"seq": int(seq), "deleted": True}
    gone = run_command(CLIENT, "dlq", "get", "--seq", seq, PYOCO_SERVER=server)
    assert (gone.returncode, gone.stdout) == (1, "")
    assert "ERR-PYOCO-0027" in gone.stderr


def test_many_letters_are_replayed_then_deleted(server: str, http: PyocoHttpClient) -> None:
    failed_runs(http, "many-letters", 3)
    match = ("--search", "many-letters")
    assert answered(server, "dlq", "replay", *match, "--dry-run")["matched"] == 3
    done = answered(server, "dlq", "replay", *match, "--delete", "--yes", "--wait")
    assert (done["state"], done["done"], done["failed"]) == ("COMPLETED", 3, 0)
    eventually_sync(
        lambda: len(http.list_runs(tag="many-letters", status=["FAILED"])) == 6,
        describe="they ran again",
    )
    eventually_sync(lambda: len(http.list_dlq(q="many-letters")["items"]) == 3, describe="their letters")
    done = answered(server, "dlq", "delete", *match, "--yes", "--wait")
    assert (done["state"], done["done"]) == ("COMPLETED", 3)
    assert http.list_dlq(q="many-letters")["items"] == []


def test_many_runs_are_counted_then_cancelled(server: str, http: PyocoHttpClient) -> None:
    ids = waiting_runs(http, "crowd", 3)
    counted = answered(server, "bulk", "cancel", "--tag", "crowd", "--dry-run")
    assert (counted["matched"], set(counted["sample"])) == (3, set(ids))
    shown = client(server, "bulk", "cancel", "--tag", "crowd", "--dry-run", "--output", "table").stdout
    assert all(run_id in shown for run_id in ids)
    done = answered(server, "bulk", "cancel", "--tag", "crowd", "--reason", "enough", "--yes", "--wait")
    assert (done["state"], done["done"]) == ("COMPLETED", 3)
    assert {http.wait(run_id, 20)["cancel_reason"] for run_id in ids} == {"enough"}
    assert done["bulk_id"] in [each["bulk_id"] for each in answered(server, "bulk", "list")]
    assert answered(server, "bulk", "get", "--bulk-id", done["bulk_id"], "--wait") == done
    assert answered(server, "bulk", "stop", "--bulk-id", done["bulk_id"])["state"] == "COMPLETED"
    assert done["bulk_id"] in client(server, "bulk", "list", "--output", "table").stdout


def test_many_runs_are_repeated(server: str, http: PyocoHttpClient) -> None:
    failed_runs(http, "again", 2)
    done = answered(
        server, "bulk", "rerun", "--tag", "again", "--status", "FAILED", "--from", "failed", "--yes"
    )
    assert (done["action"], done["matched"]) == ("rerun", 2)
    eventually_sync(lambda: len(http.list_runs(tag="again")) == 4, describe="the new runs")


def test_nothing_that_matches_is_nothing_to_do(server: str) -> None:
    assert answered(server, "bulk", "cancel", "--tag", "nowhere", "--yes")["matched"] == 0


def test_a_script_has_to_say_yes(server: str, http: PyocoHttpClient) -> None:
    waiting_runs(http, "unasked", 1)
    done = client(server, "bulk", "cancel", "--tag", "unasked")
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot ask for confirmation without a terminal (cancel the matching runs)" in done.stderr
    assert http.list_runs(tag="unasked")[0]["status"] == "PENDING"


@pytest.mark.parametrize(("keys", "code"), [(b"n\n", 1), (b"\n", 1), (CTRL_C, 130)])
def test_a_person_who_does_not_agree_changes_nothing(
    server: str, http: PyocoHttpClient, keys: bytes, code: int
) -> None:
    (run_id,) = waiting_runs(http, "asked", 1)
    command = [sys.executable, "-m", CLIENT, "bulk", "cancel", "--tag", "asked"]
    with on_terminal(command, PYOCO_SERVER=server) as terminal:
        terminal.shows("Cancel the matching runs (")
        terminal.type(keys)
        assert terminal.end() == code
    assert "Traceback" not in terminal.text
    assert http.get_run(run_id)["status"] == "PENDING"


def test_a_person_who_agrees_has_it_done(server: str, http: PyocoHttpClient) -> None:
    (run_id,) = waiting_runs(http, "agreed", 1)
    command = [sys.executable, "-m", CLIENT, "bulk", "cancel", "--tag", "agreed", "--wait"]
    with on_terminal(command, PYOCO_SERVER=server) as terminal:
        terminal.shows("Cancel the matching runs (1)?")
        terminal.type(b"y\n")
        assert terminal.end() == 0
    assert http.wait(run_id, 20)["status"] == "CANCELLED"


def test_an_unknown_operation_is_told(server: str) -> None:
    done = client(server, "bulk", "get", "--bulk-id", "00000000-0000-4000-8000-000000000000")
    assert (done.returncode, done.stdout) == (1, "")
    assert "ERR-PYOCO-0029" in done.stderr


def test_a_command_that_is_repeated_with_its_key_shows_the_first_operation(
    server: str, http: PyocoHttpClient
) -> None:
    run_ids = waiting_runs(http, "keyed", 2)
    command = ("bulk", "cancel", "--tag", "keyed", "--status", "PENDING", "--yes", "--wait")
    first = answered(server, *command, "--idempotency-key", "keyed-1")
    # Nothing matches any more.
    again = answered(server, *command, "--idempotency-key", "keyed-1")
    assert (first["bulk_id"], first["done"]) == (again["bulk_id"], len(run_ids))
    other = client(server, "bulk", "rerun", "--tag", "keyed", "--yes", "--idempotency-key", "keyed-1")
    assert "ERR-PYOCO-0026" in other.stderr


def test_a_letter_is_replayed_once_for_a_key(server: str, http: PyocoHttpClient) -> None:
    (run_id,) = failed_runs(http, "keyed-letter")
    seq = str(http.list_dlq(run_id=run_id)["items"][0]["seq"])
    command = ("dlq", "replay", "--seq", seq, "--delete", "--idempotency-key", "keyed-2")
    first = answered(server, *command)
    assert first == answered(server, *command)
    assert (first["origin_run_id"], first["deleted"]) == (run_id, True)
    rerun = ("rerun", "--run-id", run_id, "--idempotency-key", "keyed-3")
    assert answered(server, *rerun) == answered(server, *rerun)
    assert len(http.list_runs(origin=run_id)) == 2
    wrong = client(server, "dlq", "delete", "--seq", seq, "--idempotency-key", "keyed-4")
    assert "--idempotency-key has no use with --seq" in wrong.stderr


def test_a_letter_that_could_not_be_removed_is_said() -> None:
    replayed = answer(seq=41, run_id="r", status="PENDING", origin_run_id="o", deleted=False)
    with stub([replayed]) as (url, _):
        shown = client(url, "dlq", "replay", "--seq", "41", "--delete")
    assert json.loads(shown.stdout)["deleted"] is False
    assert "pyoco-client dlq delete --seq 41" in shown.stderr
