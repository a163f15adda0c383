"""`pyoco-client waits`, `resume` and `retry`, and how runs that wait are shown."""

import json
import time
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.records.runs.run_models import WaitKind
from tests.support.broker.connections import SyncConnection
from tests.support.commands import ClientCommand
from tests.support.programs import WORKER, running
from tests.support.running.waiting_runs import WaitingRun, waiting_run
from tests.support.terminal import CTRL_C, Terminal
from tests.support.waiting import eventually_sync

NO_RUN = "00000000-0000-4000-8000-000000000000"
NO_WAIT = f"{NO_RUN}.0123456789abcdef"

AMOUNT = {
    "type": "object",
    "properties": {
        "amount": {"type": "number", "minimum": 0, "description": "What the invoice says."},
        "note": {"type": "string"},
    },
    "required": ["amount"],
}


class Questions:
    """Writes runs that wait, and reads their waits.

    No worker serves their tag: after an answer, that of the shared gateway would end the run, and so cancel
    the waits that a test expects to be open.
    """

    tag = "without-workers"

    def __init__(self, nats: SyncConnection, http: PyocoHttpClient) -> None:
        self._nats = nats
        self._http = http

    def ask(self, *waits: dict[str, Any], **fields: Any) -> WaitingRun:
        """A run that waits for each of these."""
        return self._nats.do(lambda connection: waiting_run(connection, *waits, tag=self.tag, **fields))

    def wait(self, wait_id: str) -> dict[str, Any]:
        return dict(self._http.get_wait(wait_id))

    def is_expired(self, wait_id: str) -> bool:
        return bool(self.wait(wait_id)["state"] == "expired")

    def deadline_passes(self, wait_id: str) -> None:
        async def write(connection: Connection) -> None:
            store = WaitStore(connection)
            stored = await store.get_from_leader(wait_id)
            assert stored is not None
            await store.replace(structs.replace(stored.record, deadline_at=time.time()), stored.revision)

        self._nats.do(write)


@pytest.fixture(scope="session")
def questions(shared_nats_connection: SyncConnection, http: PyocoHttpClient) -> Questions:
    return Questions(shared_nats_connection, http)


def resumed(client: ClientCommand, *arguments: str) -> dict[str, Any]:
    done = client("resume", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    receipt: dict[str, Any] = json.loads(done.stdout)
    return receipt


def form(client: ClientCommand, run_id: str, *arguments: str) -> AbstractContextManager[Terminal]:
    return client.on_terminal("resume", run_id, *arguments, COLUMNS="160")


def types(terminal: Terminal, *dialogue: tuple[str, str]) -> None:
    """Type each line when its question is shown."""
    for question, keys in dialogue:
        terminal.shows(question)
        terminal.type(f"{keys}\n".encode())


def test_waits_are_listed_and_filtered(client: ClientCommand, questions: Questions) -> None:
    asked = questions.ask({"assignees": ["finance"]}, {}, flow_name="listed")
    waits = client.json("waits", "--flow", "listed")
    assert {wait["wait_id"] for wait in waits} == {wait.wait_id for wait in asked.waits}
    for options, count in (
        (("--run-id", asked.run_id), 2),
        (("--run-id", asked.run_id, "--assignee", "finance"), 1),
        (("--run-id", asked.run_id, "--task", "check"), 1),
        (("--run-id", asked.run_id, "--state", "ANSWERED", "--state", "expired"), 0),
        (("--flow", "listed", "--limit", "1"), 1),
        (("--flow", "listed", "--all"), 2),
        (("--tag", "elsewhere"), 0),
    ):
        assert len(client.json("waits", *options)) == count, options


def test_the_table_of_waits_has_the_command_to_answer(client: ClientCommand, questions: Questions) -> None:
    questions.ask(flow_name="tabled")
    asked = questions.ask({"message": "Is it\nright?", "timeout_sec": 7300.0}, flow_name="tabled")
    words = ("waits", "--flow", "tabled", "--output", "table")
    whole = client(*words, COLUMNS="80")
    assert f"{asked.run_id}  approve  2h left   Is it right?" in whole.stdout
    assert "More waits exist" not in whole.stderr
    done = client(*words, "--limit", "1")
    assert "More waits exist: use --all" in done.stderr
    assert "Answer with: pyoco-client resume RUN_ID" in done.stderr
    elsewhere = client(*words, "--server", f"{client.server}/", PYOCO_SERVER="http://127.0.0.1:1")
    assert f"Answer with: pyoco-client --server {client.server}/ resume RUN_ID" in elsewhere.stderr
    assert "tabled" in client.table("waits", "--flow", "tabled", columns=160)


def test_the_table_of_waits_that_nobody_answers_has_no_such_command(
    client: ClientCommand, questions: Questions
) -> None:
    asleep = questions.ask({"kind": WaitKind.SLEEP}, flow_name="asleep")
    words = ("waits", "--flow", "asleep", "--output", "table", "--kind", "sleep")
    done = client(*words, COLUMNS="160")
    assert asleep.run_id in done.stdout
    assert "Answer with" not in done.stderr
    # Unless one among them is for people.
    questions.ask(flow_name="asleep")
    assert "Answer with: pyoco-client resume RUN_ID" in client(*words, "--kind", "human").stderr


def test_one_wait_is_shown_with_its_history(client: ClientCommand, questions: Questions) -> None:
    asked = questions.ask({"schema": AMOUNT, "assignees": ["finance"]})
    resume = ("resume", asked.run_id, "--wait-id", asked.wait_id)
    client.json(*resume, "--json", '{"amount": 3}', "--note", "ok")
    client.error(*resume, "--json", "1")
    text = client.table("waits", "--wait-id", asked.wait_id)
    for part in ("May I approve?", "finance", '"minimum": 0', "answered", '"amount": 3', "refused"):
        assert part in text, part
    assert client.json("waits", "--wait-id", asked.wait_id)["payload"] == {"amount": 3}


def test_the_inbox_is_watched_as_json_lines(client: ClientCommand, questions: Questions) -> None:
    asked = questions.ask()
    with client.start("waits", "--watch") as program:
        program.writes('"event": "open"')
        resumed(client, asked.run_id, "--json", "true")
        program.writes('"event": "closed"')
    events = [json.loads(line) for line in program.stdout.splitlines()]
    assert asked.wait_id in {wait["wait_id"] for wait in events[0]["waits"]}
    assert asked.wait_id in {event["wait"]["wait_id"] for event in events if event["event"] == "closed"}


def test_the_inbox_is_watched_on_a_terminal(client: ClientCommand, questions: Questions) -> None:
    questions.ask({"message": "There before?", "timeout_sec": 100})
    with client.on_terminal("waits", "--watch", COLUMNS="160", LINES="200") as terminal:
        terminal.shows("There before?")
        questions.ask({"message": "Shown while it is watched?", "timeout_sec": 100})
        terminal.shows("Shown while it is watched?")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
    assert "Traceback" not in terminal.text


@pytest.mark.parametrize("text", ['{"decision": "approved", "note": "OK"}', "null", "false", '""', "0"])
def test_the_only_wait_of_a_run_is_answered(client: ClientCommand, questions: Questions, text: str) -> None:
    asked = questions.ask()
    assert resumed(client, asked.run_id, "--json", text) == {"runId": asked.run_id, "success": True}
    wait = questions.wait(asked.wait_id)
    assert (wait["state"], wait["payload"]) == ("answered", json.loads(text))


def test_an_answer_is_read_from_a_file_or_the_standard_input(
    client: ClientCommand, questions: Questions, tmp_path: Path
) -> None:
    file = tmp_path / "answer.json"
    file.write_text('{"amount": 1}')
    asked = [questions.ask() for _ in range(2)]
    resumed(client, "--run-id", asked[0].run_id, "--json", f"@{file}")
    assert client("resume", asked[1].run_id, "--json", "-", stdin='{"amount": 2}').returncode == 0
    assert [questions.wait(each.wait_id)["payload"] for each in asked] == [{"amount": 1}, {"amount": 2}]


def test_a_proposal_is_approved_edited_and_rejected(client: ClientCommand, questions: Questions) -> None:
    asked = [questions.ask({"proposal": {"amount": 10}}) for _ in range(3)]
    resumed(client, asked[0].run_id, "--decision", "approved")
    resumed(client, asked[1].run_id, "--decision", "edited", "--json", '{"amount": 9}')
    resumed(client, "--wait-id", asked[2].wait_id, "--decision", "rejected", "--note", "too dear")
    waits = [questions.wait(each.wait_id) for each in asked]
    assert [wait["decision"] for wait in waits] == ["approved", "edited", "rejected"]
    assert [wait.get("payload") for wait in waits[:2]] == [{"amount": 10}, {"amount": 9}]
    assert waits[2]["note"] == "too dear"


def test_a_proposal_with_another_digest_is_not_approved(client: ClientCommand, questions: Questions) -> None:
    asked = questions.ask({"proposal": 1})
    words = ("resume", asked.run_id, "--decision", "approved", "--digest", "0" * 64)
    assert "ERR-PYOCO-0038" in client.error(*words)


def test_the_same_answer_with_the_same_id_counts_once(client: ClientCommand, questions: Questions) -> None:
    asked = questions.ask()
    words = ("resume", "--wait-id", asked.wait_id, "--json", "1", "--decision-id", "mine")
    client.json(*words)
    assert "yes; the same answer was given before" in client.table(*words)
    rejected = ("resume", questions.ask({"proposal": 1}).run_id, "--decision", "rejected")
    for _ in range(2):
        client.json(*rejected, "--note", "n", "--decision-id", "mine")
    client.error(*rejected, "--decision-id", "other")


def test_one_of_several_waits_has_to_be_named(client: ClientCommand, questions: Questions) -> None:
    asked = questions.ask({}, {})
    for words in (("--json", "1"), ("--json", "1", "--note", "n")):
        error = client.error("resume", asked.run_id, *words)
        assert all(wait.wait_id in error for wait in asked.waits)
    resumed(client, asked.run_id, "--wait-id", asked.waits[1].wait_id, "--json", "1")
    assert [questions.wait(wait.wait_id)["state"] for wait in asked.waits] == ["open", "answered"]
    # It stays so: nobody goes on with the run, which is queued.
    assert client.json("get", asked.run_id)["status"] == "PENDING"
    assert questions.tag not in {tag for worker in client.json("workers") for tag in worker["tags"]}


def test_errors_about_a_wait_are_explained(client: ClientCommand, questions: Questions) -> None:
    decided, checked = questions.ask(), questions.ask({"schema": AMOUNT})
    resumed(client, decided.run_id, "--json", "1")
    error = client.error("resume", "--wait-id", decided.wait_id, "--json", "2")
    assert "it was answered by 127.0.0.1" in error
    error = client.error("resume", checked.run_id, "--json", '{"amount": -1}')
    assert "ERR-PYOCO-0039" in error
    assert "-1 is less than the minimum of 0" in error
    assert "ERR-PYOCO-0005" in client.error("resume", NO_RUN, "--json", "1")
    assert "ERR-PYOCO-0035" in client.error("resume", "--wait-id", NO_WAIT, "--note", "n", "--json", "1")


def test_an_expired_question_can_be_asked_again(client: ClientCommand, questions: Questions) -> None:
    asked = questions.ask({"timeout_sec": 0.1})
    eventually_sync(partial(questions.is_expired, asked.wait_id), describe="it expires")
    assert "ERR-PYOCO-0037" in client.error("resume", asked.run_id, "--json", "2")
    hint = f"pyoco-client retry {asked.run_id}"
    for words in ((asked.run_id,), ("--wait-id", asked.wait_id)):
        with client.on_terminal("resume", *words, COLUMNS="160") as terminal:
            assert terminal.end() == 1
        assert hint in terminal.text
    eventually_sync(lambda: hint in client.table("get", "--run-id", asked.run_id), describe="the run failed")
    again = client.json("retry", asked.run_id)
    assert (again["status"], again["reason"]) == ("WAITING_HUMAN", None)
    assert "ERR-PYOCO-0036" in client.error("retry", "--run-id", questions.ask().run_id)


FLOW = """
from pyoco import Flow, task

@task
def approve(ctx):
    answer = ctx.human("Is it right?", schema={"type": "object", "required": ["amount"]})
    return answer["amount"]

flow = Flow("invoice")
flow >> approve
"""


def test_a_run_continues_after_its_answer(
    client: ClientCommand, shared_nats_url: str, tmp_path: Path
) -> None:
    (tmp_path / "invoice.py").write_text(FLOW)
    worker = ("--flows", str(tmp_path), "--tag", "people", "--nats-url", shared_nats_url)
    submit = ("submit", "--flow-name", "invoice", "--tag", "people", "--wait", "--output", "json")
    with running(WORKER, *worker, cwd=tmp_path), client.start(*submit) as program:
        program.writes("approve asks: Is it right?")
        program.writes("pyoco-client resume ")
        run_id = program.stderr.partition("pyoco-client resume ")[2].split()[0]
        resumed(client, run_id, "--json", '{"amount": 3}')
        assert program.end() == 0, program.stderr
    assert json.loads(program.stdout)["status"] == "COMPLETED"


def test_a_form_validates_shows_and_sends_an_answer(client: ClientCommand, questions: Questions) -> None:
    asked = questions.ask({"schema": AMOUNT, "message": "Is the amount right?"})
    with form(client, asked.run_id) as terminal:
        types(
            terminal,
            ("amount (number, at least 0)", "-1"),
            ("-1 is less than the minimum of 0", "12.5"),
            ("note (text, optional)", ""),
            ("What now? [send it]", "change it"),
            ("amount (number, at least 0) [12.5]", ""),
        )
        eventually_sync(lambda: terminal.text.count("note (text, optional)") == 2, describe="the note again")
        terminal.type(b"fine\n")
        types(terminal, ('"note": "fine"', ""))
        assert terminal.end() == 0, terminal.text
    assert "Is the amount right?" in terminal.text
    assert "What the invoice says." in terminal.text
    assert questions.wait(asked.wait_id)["payload"] == {"amount": 12.5, "note": "fine"}


def test_a_form_offers_several_waits(client: ClientCommand, questions: Questions) -> None:
    asked = questions.ask({}, {"schema": {"type": "boolean"}})
    with form(client, asked.run_id) as terminal:
        types(terminal, ("Which one?", "check / human"), ("answer (yes or no)", "y"), ("What now?", ""))
        assert terminal.end() == 0, terminal.text
    assert questions.wait(asked.waits[1].wait_id)["payload"] is True


def test_a_form_edits_a_proposal(client: ClientCommand, questions: Questions) -> None:
    asked = questions.ask({"proposal": {"amount": 10}, "schema": AMOUNT})
    with form(client, asked.run_id) as terminal:
        terminal.shows('"amount": 10')
        types(terminal, ("What do you decide?", "edit it"), ("amount (number", "9"), ("note (text", ""))
        types(terminal, ("decision: edited", "send it"))
        assert terminal.end() == 0, terminal.text
    assert questions.wait(asked.wait_id)["payload"] == {"amount": 9}


@pytest.mark.parametrize(("word", "code", "decision"), [("n", 1, None), ("y", 0, "approved")])
def test_an_approval_is_confirmed_after_the_proposal_is_shown(
    client: ClientCommand, questions: Questions, word: str, code: int, decision: str | None
) -> None:
    asked = questions.ask({"proposal": {"amount": 10}})
    with form(client, asked.run_id, "--decision", "approved") as terminal:
        types(terminal, ("Approve this?", word))
        assert terminal.end() == code
    assert '"amount": 10' in terminal.text
    assert ("Nothing was sent" in terminal.text) == (decision is None)
    assert questions.wait(asked.wait_id)["decision"] == decision


def test_a_form_shows_its_answer_when_another_was_accepted_before(
    client: ClientCommand, questions: Questions
) -> None:
    asked = questions.ask({"schema": AMOUNT})
    with form(client, asked.run_id) as terminal:
        types(terminal, ("amount (number", "12"), ("note (text", "mine"))
        resumed(client, asked.run_id, "--json", '{"amount": 1}')
        types(terminal, ("What now?", ""))
        assert terminal.end() == 1
    assert "Your answer was not accepted. You sent:" in terminal.text
    assert "it was answered by" in terminal.text
    assert questions.wait(asked.wait_id)["payload"] == {"amount": 1}


def test_a_form_shows_its_answer_when_the_deadline_has_passed(
    client: ClientCommand, questions: Questions
) -> None:
    asked = questions.ask()
    with form(client, asked.run_id) as terminal:
        types(terminal, ("answer (JSON, or text)", "fine"))
        terminal.shows("What now?")
        questions.deadline_passes(asked.wait_id)
        terminal.type(b"\n")
        assert terminal.end() == 1
    assert "ERR-PYOCO-0037" in terminal.text
    assert '"fine"' in terminal.text.partition("Your answer was not accepted. You sent:")[2]


def test_a_form_that_is_left_sends_nothing(client: ClientCommand, questions: Questions) -> None:
    asked = questions.ask()
    with form(client, asked.run_id) as terminal:
        types(terminal, ("answer (JSON, or text)", "fine"), ("What now?", "quit without an answer"))
        assert terminal.end() == 1
    assert "Nothing was sent; the run is still waiting." in terminal.text
    with form(client, asked.run_id) as terminal:
        terminal.shows("answer (JSON, or text)")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
    assert questions.wait(asked.wait_id)["state"] == "open"


def test_a_form_for_a_run_without_a_question_is_an_error(
    client: ClientCommand, http: PyocoHttpClient
) -> None:
    with form(client, http.submit_run("noop", tag="nobody")["run_id"]) as terminal:
        assert terminal.end() == 1
    assert "The run is PENDING; no answer is expected." in terminal.text


def test_get_and_list_show_the_question_and_how_to_answer(
    client: ClientCommand, questions: Questions
) -> None:
    asked = questions.ask({"message": "Is it right?"}, flow_name="viewed")
    shown = client.table("get", "--run-id", asked.run_id, columns=200)
    assert "approve asks: Is it right? (until " in shown
    assert f"pyoco-client resume {asked.run_id}" in shown
    listed = client("list", "--flow", "viewed", "--output", "table", COLUMNS="200")
    assert "Is it right? (" in listed.stdout
    assert "1 of them waits for an answer: pyoco-client waits" in listed.stderr
    found = client("list", "--flow", "viewed", "--status", "waiting_human")
    assert ([item["run_id"] for item in json.loads(found.stdout)], found.stderr) == ([asked.run_id], "")


def test_a_watch_shows_the_question_and_how_to_answer(client: ClientCommand, questions: Questions) -> None:
    asked = questions.ask({"message": "Is it right?"})
    watch = ("watch", "--run-id", asked.run_id)
    with client.start(*watch) as program:
        program.writes(f"  answer with: pyoco-client resume {asked.run_id}\n")
    assert program.stdout.startswith(
        "run WAITING_HUMAN\ntask approve WAITING\napprove asks: Is it right? (until"
    )
    with client.on_terminal(*watch, COLUMNS="160") as terminal:
        terminal.shows("approve asks: Is it right?")
        terminal.shows(f"pyoco-client resume {asked.run_id}")


def test_an_open_wait_is_extended_reassigned_and_withdrawn(
    client: ClientCommand, questions: Questions
) -> None:
    asked = questions.ask({"assignees": ["ann"]})
    [wait] = asked.waits
    extended = client.json("wait-extend", asked.run_id, "--by", "2h", "--reason", "holiday")
    assert extended["deadline_at"] == wait.deadline_at + 7200
    until = wait.deadline_at + 9000
    assert client.json("wait-extend", wait.wait_id, "--until", str(until))["deadline_at"] == until
    assert client.json("wait-reassign", asked.run_id, "--to", "bob", "--to", "eve")["assignees"] == [
        "bob",
        "eve",
    ]
    assert client.json("wait-reassign", asked.run_id, "--everybody")["assignees"] == []
    text = client.table("wait-withdraw", asked.run_id, "--reason", "wrong invoice", columns=200)
    for part in ("extended: holiday", "reassigned", "withdrawn: wrong invoice", "the wait is withdrawn"):
        assert part in text, part
    run = client.table("get", "--run-id", asked.run_id, columns=200)
    assert f"pyoco-client retry {asked.run_id}" in run
    assert "withdrawn by 127.0.0.1: wrong invoice" in client.error("resume", asked.run_id, "--json", "1")
    client.json("retry", asked.run_id)
    resumed(client, asked.run_id, "--json", "1")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("wait-withdraw", NO_WAIT), "--reason"),
        (("wait-extend", NO_WAIT), "use either --by or --until"),
        (("wait-extend", NO_WAIT, "--by", "soon"), "expected a duration"),
        (("wait-extend", NO_WAIT, "--until", "2h"), "expected a time"),
        (("wait-reassign", NO_WAIT), "use either --to or --everybody"),
        (("wait-withdraw", "nothing", "--reason", "x"), "expected a wait id"),
        (("wait-withdraw", NO_RUN, "--reason", "x"), "has no open wait"),
        (("wait-withdraw", NO_WAIT, "--reason", "x"), "ERR-PYOCO-0035"),
    ],
)
def test_a_wrong_change_of_a_wait_is_explained(
    client: ClientCommand, words: tuple[str, ...], expected: str
) -> None:
    done = client(*words)
    assert done.returncode != 0
    assert expected in done.stderr


def test_votes_are_shown_until_the_last_approval(client: ClientCommand, questions: Questions) -> None:
    asked = questions.ask({"proposal": {"amount": 10}, "required": 2})
    approve = ("resume", "--wait-id", asked.wait_id, "--decision", "approved")
    assert "1 of 2 approvals, the run still waits" in client.table(*approve, "--note", "fine", columns=160)
    text = client.table("waits", "--wait-id", asked.wait_id, columns=160)
    assert "1 of 2" in text
    assert "approved by 127.0.0.1: fine" in text
    assert client.json(*approve)["state"] == "answered"
