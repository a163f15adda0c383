"""`pyoco-client explain`, `dlq` and `bulk`."""

import json
from pathlib import Path

import pytest

from pyoco_server.http_client import PyocoHttpClient
from tests.support.commands import ClientCommand
from tests.support.http_stub import answer, stub
from tests.support.terminal import CTRL_C
from tests.support.waiting import eventually_sync

NO_OPERATION = "00000000-0000-4000-8000-000000000000"


def failed_runs(http: PyocoHttpClient, label: str, count: int = 1) -> list[str]:
    """Runs that failed and have their dead letters."""
    ids = [
        http.submit_run("failing", {"message": label}, tags=["default", label])["run_id"]
        for _ in range(count)
    ]
    for run_id in ids:
        http.wait(run_id, 20)
        eventually_sync(lambda: http.list_dlq(run_id=run_id)["items"], describe="its letter")  # noqa: B023
    return ids


def waiting_runs(http: PyocoHttpClient, label: str, count: int = 1) -> list[str]:
    """Runs that no worker executes."""
    return [http.submit_run("noop", tag="nobody", tags=[label])["run_id"] for _ in range(count)]


def test_a_waiting_run_is_explained_with_what_to_do(client: ClientCommand, http: PyocoHttpClient) -> None:
    (run_id,) = waiting_runs(http, "explained")
    explanation = client.json("explain", "--run-id", run_id)
    assert explanation["findings"][0]["code"] == "no_worker_for_tag"
    shown = client.table("explain", "--run-id", run_id)
    assert explanation["summary"].split(";")[0] in shown
    assert "pyoco-worker --flows ./flows --tag nobody" in shown
    both = client.table("get", "--run-id", run_id)
    assert "no_worker_for_tag" in both
    assert "flow_name" in both
    assert "findings" not in client.json("get", "--run-id", run_id)


def test_an_ended_run_is_shown_without_an_explanation(client: ClientCommand, ended_run: str) -> None:
    assert "[completed]" not in client.table("get", "--run-id", ended_run)
    assert "completed" in client.table("explain", "--run-id", ended_run)


def test_a_letter_is_closed_by_a_rerun_that_completes(
    client: ClientCommand, http: PyocoHttpClient, tmp_path: Path
) -> None:
    # Each of its four tries fails, and the first of the rerun does not.
    run_id = http.submit_run("retrying", {"book": str(tmp_path / "book"), "times": 4})["run_id"]
    http.wait(run_id, 20)
    eventually_sync(lambda: http.list_dlq(run_id=run_id)["items"], describe="its letter")
    words = ("dlq", "list", "--run-id", run_id)
    assert len(client.json(*words, "--state", "open")) == 1
    assert client.json(*words, "--state", "closed") == []
    (letter,) = client.json(*words)
    again = client.json("dlq", "replay", "--seq", str(letter["seq"]))["run_id"]
    http.wait(again, 20)
    assert client.json(*words, "--state", "open") == []
    (closed,) = client.json(*words, "--state", "closed")
    assert closed["rerun"] == {"run_id": again, "status": "COMPLETED"}
    assert "COMPLETED" in client.table(*words)
    assert "yes: the rerun has completed" in client.table("dlq", "get", "--seq", str(letter["seq"]))


def test_letters_are_listed_and_shown(client: ClientCommand, http: PyocoHttpClient) -> None:
    (run_id,) = failed_runs(http, "listed")
    (letter,) = client.json("dlq", "list", "--run-id", run_id)
    seq = str(letter["seq"])
    assert (letter["reason"], letter["run_id"]) == ("execution_error", run_id)
    assert client.json("dlq", "get", "--seq", seq) == letter
    assert client.json("dlq", "list", "--search", "LISTED", "--all") == [letter]
    assert client.json("dlq", "list", "--search", "listed", "--until", "1h") == []
    words = ("--reason", "execution_error", "--reason", "timeout", "--flow", "failing", "--since", "1h")
    assert letter in client.json("dlq", "list", *words, "--tag", "default", "--limit", "1000")
    table = client.table("dlq", "list", "--run-id", run_id)
    assert f"{seq} " in table
    assert "listed" in table
    assert run_id in client.table("dlq", "get", "--seq", seq)


def test_one_letter_is_replayed_and_deleted(client: ClientCommand, http: PyocoHttpClient) -> None:
    (run_id,) = failed_runs(http, "replayed")
    seq = str(http.list_dlq(run_id=run_id)["items"][0]["seq"])
    assert client.json("dlq", "replay", "--seq", seq, "--from", "failed")["origin_run_id"] == run_id
    assert client.json("dlq", "delete", "--seq", seq) == {"seq": int(seq), "deleted": True}
    assert "ERR-PYOCO-0027" in client.error("dlq", "get", "--seq", seq)


def test_matching_letters_are_replayed_then_deleted(client: ClientCommand, http: PyocoHttpClient) -> None:
    failed_runs(http, "many-letters", 3)
    match = ("--search", "many-letters")
    assert client.json("dlq", "replay", *match, "--dry-run")["matched"] == 3
    done = client.json("dlq", "replay", *match, "--delete", "--yes", "--wait")
    assert (done["state"], done["done"], done["failed"]) == ("COMPLETED", 3, 0)
    eventually_sync(
        lambda: len(http.list_runs(tag="many-letters", status=["FAILED"])) == 6, describe="they ran again"
    )
    eventually_sync(lambda: len(http.list_dlq(q="many-letters")["items"]) == 3, describe="their letters")
    done = client.json("dlq", "delete", *match, "--yes", "--wait")
    assert (done["state"], done["done"]) == ("COMPLETED", 3)
    assert http.list_dlq(q="many-letters")["items"] == []


def test_matching_runs_are_counted_then_cancelled(client: ClientCommand, http: PyocoHttpClient) -> None:
    ids = waiting_runs(http, "counted", 3)
    cancel = ("bulk", "cancel", "--tag", "counted")
    counted = client.json(*cancel, "--dry-run")
    assert (counted["matched"], set(counted["sample"])) == (3, set(ids))
    shown = client.table(*cancel, "--dry-run")
    assert all(run_id in shown for run_id in ids)
    done = client.json(*cancel, "--reason", "enough", "--yes", "--wait")
    bulk_id = ("--bulk-id", done["bulk_id"])
    assert (done["state"], done["done"]) == ("COMPLETED", 3)
    assert {http.wait(run_id, 20)["cancel_reason"] for run_id in ids} == {"enough"}
    assert done["bulk_id"] in [each["bulk_id"] for each in client.json("bulk", "list")]
    assert client.json("bulk", "get", *bulk_id, "--wait") == done
    assert client.json("bulk", "stop", *bulk_id)["state"] == "COMPLETED"
    assert done["bulk_id"] in client.table("bulk", "list")


def test_matching_runs_are_rerun(client: ClientCommand, http: PyocoHttpClient) -> None:
    failed_runs(http, "again", 2)
    words = ("--tag", "again", "--status", "FAILED", "--from", "failed", "--yes")
    done = client.json("bulk", "rerun", *words)
    assert (done["action"], done["matched"]) == ("rerun", 2)
    eventually_sync(lambda: len(http.list_runs(tag="again")) == 4, describe="the new runs")


def test_without_matches_nothing_is_started(client: ClientCommand) -> None:
    assert client.json("bulk", "cancel", "--tag", "nowhere", "--yes")["matched"] == 0


def test_without_a_terminal_yes_is_required(client: ClientCommand, http: PyocoHttpClient) -> None:
    (run_id,) = waiting_runs(http, "unasked")
    error = client.error("bulk", "cancel", "--tag", "unasked")
    assert "cannot ask for confirmation without a terminal; add --yes" in error
    assert http.get_run(run_id)["status"] == "PENDING"


@pytest.mark.parametrize(("keys", "code"), [(b"n\n", 1), (b"\n", 1), (CTRL_C, 130)])
def test_a_bulk_cancel_that_is_not_confirmed_changes_nothing(
    client: ClientCommand, http: PyocoHttpClient, keys: bytes, code: int
) -> None:
    (run_id,) = waiting_runs(http, "asked")
    with client.on_terminal("bulk", "cancel", "--tag", "asked") as terminal:
        terminal.shows("Cancel the matching runs (")
        terminal.type(keys)
        assert terminal.end() == code
    assert "Traceback" not in terminal.text
    assert http.get_run(run_id)["status"] == "PENDING"


def test_a_confirmed_bulk_cancel_is_executed(client: ClientCommand, http: PyocoHttpClient) -> None:
    (run_id,) = waiting_runs(http, "agreed")
    with client.on_terminal("bulk", "cancel", "--tag", "agreed", "--wait") as terminal:
        terminal.shows("Cancel the matching runs (1)?")
        terminal.type(b"y\n")
        assert terminal.end() == 0
    assert http.wait(run_id, 20)["status"] == "CANCELLED"


def test_an_unknown_operation_is_an_error(client: ClientCommand) -> None:
    assert "ERR-PYOCO-0029" in client.error("bulk", "get", "--bulk-id", NO_OPERATION)


def test_a_bulk_cancel_repeated_with_its_key_shows_the_first_operation(
    client: ClientCommand, http: PyocoHttpClient
) -> None:
    run_ids = waiting_runs(http, "keyed", 2)
    command = ("bulk", "cancel", "--tag", "keyed", "--status", "PENDING", "--yes", "--wait")
    first = client.json(*command, "--idempotency-key", "keyed-1")
    # Nothing matches any more.
    again = client.json(*command, "--idempotency-key", "keyed-1")
    assert (first["bulk_id"], first["done"]) == (again["bulk_id"], len(run_ids))
    other = ("bulk", "rerun", "--tag", "keyed", "--yes", "--idempotency-key", "keyed-1")
    assert "ERR-PYOCO-0026" in client.error(*other)


def test_a_letter_is_replayed_once_per_key(client: ClientCommand, http: PyocoHttpClient) -> None:
    (run_id,) = failed_runs(http, "keyed-letter")
    seq = str(http.list_dlq(run_id=run_id)["items"][0]["seq"])
    command = ("dlq", "replay", "--seq", seq, "--delete", "--idempotency-key", "keyed-2")
    first = client.json(*command)
    assert first == client.json(*command)
    assert (first["origin_run_id"], first["deleted"]) == (run_id, True)
    rerun = ("rerun", "--run-id", run_id, "--idempotency-key", "keyed-3")
    assert client.json(*rerun) == client.json(*rerun)
    assert len(http.list_runs(origin=run_id)) == 2


def test_a_replayed_letter_that_was_not_deleted_is_reported() -> None:
    replayed = answer(seq=41, run_id="r", status="PENDING", origin_run_id="o", deleted=False)
    with stub([replayed]) as (url, _):
        shown = ClientCommand(url)("dlq", "replay", "--seq", "41", "--delete")
    assert json.loads(shown.stdout)["deleted"] is False
    assert "pyoco-client dlq delete --seq 41" in shown.stderr
