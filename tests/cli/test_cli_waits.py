"""`pyoco-client waits`, `resume` and `retry` with a real gateway; and how views show runs that wait."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.wait_store import WaitStore
from pyoco_server.cli.commands.waits_command import Inbox
from pyoco_server.cli.options.time_formats import time_left
from pyoco_server.cli.views.list_views import runs_view
from pyoco_server.cli.views.run_views import NewQuestions, run_view
from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_client import PyocoHttpClient
from tests.support.broker.connections import connected
from tests.support.commands import call_client
from tests.support.programs import CLIENT, SERVER, WORKER, running, started
from tests.support.running.waiting_runs import WaitingRun, waiting_run
from tests.support.terminal import CTRL_C, Terminal, on_terminal
from tests.support.waiting import eventually_sync
from tests.unit.cli.test_cli_views import run, shown

NO_RUN = "00000000-0000-4000-8000-000000000000"
NO_WAIT = f"{NO_RUN}.0123456789abcdef"
T = TypeVar("T")

AMOUNT = {
    "type": "object",
    "properties": {
        "amount": {"type": "number", "minimum": 0, "description": "What the invoice says."},
        "note": {"type": "string"},
    },
    "required": ["amount"],
}


class Account:
    """A gateway, and the NATS account behind it."""

    def __init__(self, url: str, nats_url: str) -> None:
        self.url = url
        self.nats_url = nats_url
        self._config = NatsBackendConfig(nats_url=nats_url, load_dotenv=False)

    def ask(self, *waits: dict[str, Any], **fields: Any) -> WaitingRun:
        """A run that waits for each of these."""
        return self._do(lambda connection: waiting_run(connection, *waits, **fields))

    def client(self, *arguments: str, columns: str = "80") -> subprocess.CompletedProcess[str]:
        return call_client(*arguments, PYOCO_SERVER=self.url, COLUMNS=columns)

    def answered(self, *arguments: str) -> dict[str, Any]:
        done = self.client("resume", *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        receipt: dict[str, Any] = json.loads(done.stdout)
        return receipt

    def wait(self, wait_id: str) -> dict[str, Any]:
        with PyocoHttpClient(self.url) as client:
            return dict(client.get_wait(wait_id))

    def deadline_passes(self, wait_id: str) -> None:
        async def write(connection: Connection) -> None:
            store = WaitStore(connection)
            stored = await store.get_from_leader(wait_id)
            assert stored is not None
            await store.replace(structs.replace(stored.record, deadline_at=time.time()), stored.revision)

        self._do(write)

    def _do(self, action: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        async def within() -> T:
            async with connected(self._config) as connection:
                return await action(connection)

        return asyncio.run(within())


@pytest.fixture(scope="module")
def account(_unused_accounts: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    folder, nats_url = tmp_path_factory.mktemp("waits"), next(_unused_accounts)
    with (
        running(SERVER, "up", "--port", "0", "--nats-url", nats_url, cwd=folder) as (_, facts),
        PyocoHttpClient(facts["url"]) as client,
    ):
        eventually_sync(lambda: client.health()["index"]["ready"], describe="the index is ready")
        yield Account(facts["url"], nats_url)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", CLIENT, *arguments]


def at(account: Account, *arguments: str) -> Any:
    return on_terminal(command(*arguments), PYOCO_SERVER=account.url, COLUMNS="160")


def types(terminal: Terminal, *dialogue: tuple[str, str]) -> None:
    """Each time this is shown, type that."""
    for question, keys in dialogue:
        terminal.shows(question)
        terminal.type(f"{keys}\n".encode())


def test_a_script_gets_the_waits_that_match(account: Account) -> None:
    asked = account.ask({"assignees": ["finance"]}, {}, flow_name="listed")
    done = account.client("waits", "--flow", "listed")
    waits = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
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
        assert len(json.loads(account.client("waits", *options).stdout)) == count, options


def test_a_person_gets_a_table_and_the_command_to_answer(account: Account) -> None:
    account.ask(flow_name="tabled")
    asked = account.ask({"message": "Is it\nright?", "timeout_sec": 7300.0}, flow_name="tabled")
    whole = account.client("waits", "--flow", "tabled", "--output", "table")
    assert f"{asked.run_id}  approve  2h left   Is it right?" in whole.stdout
    assert "More waits exist" not in whole.stderr
    done = account.client("waits", "--flow", "tabled", "--output", "table", "--limit", "1")
    assert "More waits exist: use --all" in done.stderr
    assert "Answer with: pyoco-client resume RUN_ID" in done.stderr
    wide = account.client("waits", "--flow", "tabled", "--output", "table", columns="160")
    assert "tabled" in wide.stdout


def test_one_wait_is_shown_with_its_history(account: Account) -> None:
    asked = account.ask({"schema": AMOUNT, "assignees": ["finance"]})
    account.answered(asked.run_id, "--wait-id", asked.wait_id, "--json", '{"amount": 3}', "--note", "ok")
    assert account.client("resume", asked.run_id, "--wait-id", asked.wait_id, "--json", "1").returncode == 1
    text = account.client("waits", "--wait-id", asked.wait_id, "--output", "table").stdout
    for part in ("May I approve?", "finance", '"minimum": 0', "answered", '"amount": 3', "refused"):
        assert part in text, part
    assert json.loads(account.client("waits", "--wait-id", asked.wait_id).stdout)["payload"] == {"amount": 3}


def test_the_inbox_is_watched_in_lines(account: Account) -> None:
    asked = account.ask()
    with started(command("waits", "--watch"), PYOCO_SERVER=account.url) as program:
        program.writes('"event": "open"')
        account.answered(asked.run_id, "--json", "true")
        program.writes('"event": "closed"')
    events = [json.loads(line) for line in program.stdout.splitlines()]
    assert asked.wait_id in {wait["wait_id"] for wait in events[0]["waits"]}
    assert events[-1]["wait"]["wait_id"] == asked.wait_id


def test_the_inbox_is_watched_on_a_terminal(account: Account) -> None:
    account.ask({"message": "There before?"})
    with at(account, "waits", "--watch") as terminal:
        terminal.shows("There before?")
        account.ask({"message": "Shown while it is watched?"})
        terminal.shows("Shown while it is watched?")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
    assert "Traceback" not in terminal.text


def test_the_inbox_forgets_what_was_decided() -> None:
    inbox, first, second = Inbox(), *({**_ITEM, "wait_id": name, "message": name} for name in ("one", "two"))
    assert shown(inbox.render()) == "Connecting ..."
    inbox.apply({"event": "open", "id": "1", "waits": [first]})  # type: ignore[list-item]
    inbox.apply({"event": "opened", "id": "2", "wait": second})  # type: ignore[typeddict-item]
    assert all(name in shown(inbox.render()) for name in ("one", "two"))
    inbox.apply({"event": "closed", "id": "3", "wait": first})  # type: ignore[typeddict-item]
    assert "one" not in shown(inbox.render())
    inbox.apply({"event": "open", "id": "4", "waits": []})
    assert shown(inbox.render()) == "(none)"


_ITEM = {
    "run_id": NO_RUN,
    "state": "open",
    "flow_name": "f",
    "task": "t",
    "assignees": [],
    "deadline_at": 0.0,
    "decided_at": None,
}


@pytest.mark.parametrize("text", ['{"decision": "approved", "note": "OK"}', "null", "false", '""', "0"])
def test_a_script_answers_the_only_wait_of_a_run(account: Account, text: str) -> None:
    asked = account.ask()
    assert account.answered(asked.run_id, "--json", text) == {"runId": asked.run_id, "success": True}
    wait = account.wait(asked.wait_id)
    assert (wait["state"], wait["payload"]) == ("answered", json.loads(text))


def test_an_answer_comes_from_a_file_or_the_standard_input(account: Account, tmp_path: Path) -> None:
    file = tmp_path / "answer.json"
    file.write_text('{"amount": 1}')
    asked = [account.ask() for _ in range(2)]
    account.answered("--run-id", asked[0].run_id, "--json", f"@{file}")
    piped = subprocess.run(
        command("resume", asked[1].run_id, "--json", "-", "--server", account.url),
        input=b'{"amount": 2}',
        capture_output=True,
        check=False,
    )
    assert piped.returncode == 0, piped.stderr
    assert [account.wait(each.wait_id)["payload"] for each in asked] == [{"amount": 1}, {"amount": 2}]


def test_a_proposal_is_approved_edited_and_rejected(account: Account) -> None:
    asked = [account.ask({"proposal": {"amount": 10}}) for _ in range(3)]
    account.answered(asked[0].run_id, "--decision", "approved")
    account.answered(asked[1].run_id, "--decision", "edited", "--json", '{"amount": 9}')
    account.answered("--wait-id", asked[2].wait_id, "--decision", "rejected", "--note", "too dear")
    waits = [account.wait(each.wait_id) for each in asked]
    assert [wait["decision"] for wait in waits] == ["approved", "edited", "rejected"]
    assert [wait.get("payload") for wait in waits[:2]] == [{"amount": 10}, {"amount": 9}]
    assert waits[2]["note"] == "too dear"


def test_another_proposal_than_the_one_that_was_seen_is_not_approved(account: Account) -> None:
    asked = account.ask({"proposal": 1})
    done = account.client("resume", asked.run_id, "--decision", "approved", "--digest", "0" * 64)
    assert done.returncode == 1
    assert "ERR-PYOCO-0038" in done.stderr


def test_the_same_answer_with_the_same_id_is_one_answer(account: Account) -> None:
    asked = account.ask()
    words = ("resume", "--wait-id", asked.wait_id, "--json", "1", "--decision-id", "mine")
    first, again = account.client(*words), account.client(*words, "--output", "table")
    assert (first.returncode, again.returncode) == (0, 0)
    assert "yes; the same answer was given before" in again.stdout
    proposed = account.ask({"proposal": 1})
    rejected = ("resume", proposed.run_id, "--decision", "rejected")
    twice = [account.client(*rejected, "--note", "n", "--decision-id", "mine") for _ in range(2)]
    assert [done.returncode for done in twice] == [0, 0]
    assert account.client(*rejected, "--decision-id", "other").returncode == 1


def test_of_several_waits_one_has_to_be_named(account: Account) -> None:
    asked = account.ask({}, {})
    for words in (("--json", "1"), ("--json", "1", "--note", "n")):
        done = account.client("resume", asked.run_id, *words)
        assert done.returncode == 1
        assert all(wait.wait_id in done.stderr for wait in asked.waits)
    account.answered(asked.run_id, "--wait-id", asked.waits[1].wait_id, "--json", "1")
    assert [account.wait(wait.wait_id)["state"] for wait in asked.waits] == ["open", "answered"]


def test_a_conflict_an_expiry_and_an_unknown_run_are_told(account: Account) -> None:
    decided, expired = account.ask(), account.ask({"timeout_sec": 0.1})
    account.answered(decided.run_id, "--json", "1")
    done = account.client("resume", "--wait-id", decided.wait_id, "--json", "2")
    assert (done.returncode, "it was answered by 127.0.0.1" in done.stderr) == (1, True), done.stderr
    eventually_sync(lambda: account.wait(expired.wait_id)["state"] == "expired", describe="it expires")
    done = account.client("resume", expired.run_id, "--json", "2")
    assert (done.returncode, "ERR-PYOCO-0037" in done.stderr) == (1, True), done.stderr
    for words in (("resume", expired.run_id), ("resume", "--wait-id", expired.wait_id)):
        with at(account, *words) as terminal:
            assert terminal.end() == 1
        assert f"pyoco-client retry {expired.run_id}" in terminal.text
    assert "ERR-PYOCO-0005" in account.client("resume", NO_RUN, "--json", "1").stderr
    assert (
        "ERR-PYOCO-0035"
        in account.client("resume", "--wait-id", NO_WAIT, "--note", "n", "--json", "1").stderr
    )


def test_an_answer_that_the_schema_refuses_names_its_fields(account: Account) -> None:
    asked = account.ask({"schema": AMOUNT})
    done = account.client("resume", asked.run_id, "--json", '{"amount": -1}')
    assert (done.returncode, "ERR-PYOCO-0039" in done.stderr) == (1, True)
    assert "-1 is less than the minimum of 0" in done.stderr


def test_what_expired_is_asked_again(account: Account) -> None:
    asked = account.ask({"timeout_sec": 0.1})

    def failed() -> bool:
        return "FAILED" in account.client("get", "--run-id", asked.run_id).stdout

    eventually_sync(failed, describe="nobody answered in time")
    table = account.client("get", "--run-id", asked.run_id, "--output", "table").stdout
    assert f"pyoco-client retry {asked.run_id}" in table
    done = account.client("retry", asked.run_id)
    again = json.loads(done.stdout)
    assert (done.returncode, again["status"], again["reason"]) == (0, "WAITING_HUMAN", None)
    waiting = account.client("retry", "--run-id", account.ask().run_id)
    assert (waiting.returncode, "ERR-PYOCO-0036" in waiting.stderr) == (1, True)


FLOW = """
from pyoco import Flow, task

@task
def approve(ctx):
    answer = ctx.human("Is it right?", schema={"type": "object", "required": ["amount"]})
    return answer["amount"]

flow = Flow("invoice")
flow >> approve
"""


def test_a_run_that_was_answered_goes_on(account: Account, tmp_path: Path) -> None:
    (tmp_path / "invoice.py").write_text(FLOW)
    submit = command("submit", "--flow-name", "invoice", "--tag", "people", "--wait", "--output", "json")
    with (
        running(
            WORKER, "--flows", str(tmp_path), "--tag", "people", "--nats-url", account.nats_url, cwd=tmp_path
        ),
        started(submit, PYOCO_SERVER=account.url) as program,
    ):
        program.writes("approve asks: Is it right?")
        run_id = program.stderr.partition("pyoco-client resume ")[2].split()[0]
        account.answered(run_id, "--json", '{"amount": 3}')
        assert program.end() == 0, program.stderr
    assert json.loads(program.stdout)["status"] == "COMPLETED"


def test_a_form_asks_checks_shows_and_sends(account: Account) -> None:
    asked = account.ask({"schema": AMOUNT, "message": "Is the amount right?"})
    with at(account, "resume", asked.run_id) as terminal:
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
    assert account.wait(asked.wait_id)["payload"] == {"amount": 12.5, "note": "fine"}


def test_one_of_several_waits_is_chosen(account: Account) -> None:
    asked = account.ask({}, {"schema": {"type": "boolean"}})
    with at(account, "resume", asked.run_id) as terminal:
        types(terminal, ("Which one?", "check / human"), ("answer (yes or no)", "y"), ("What now?", ""))
        assert terminal.end() == 0, terminal.text
    assert account.wait(asked.waits[1].wait_id)["payload"] is True


def test_a_proposal_is_shown_and_edited(account: Account) -> None:
    asked = account.ask({"proposal": {"amount": 10}, "schema": AMOUNT})
    with at(account, "resume", asked.run_id) as terminal:
        terminal.shows('"amount": 10')
        types(terminal, ("What do you decide?", "edit it"), ("amount (number", "9"), ("note (text", ""))
        types(terminal, ("decision: edited", "send it"))
        assert terminal.end() == 0, terminal.text
    assert account.wait(asked.wait_id)["payload"] == {"amount": 9}


def test_who_approves_sees_what(account: Account) -> None:
    asked = account.ask({"proposal": {"amount": 10}})
    with at(account, "resume", asked.run_id, "--decision", "approved") as terminal:
        types(terminal, ("Approve this?", "n"))
        assert terminal.end() == 1
    assert '"amount": 10' in terminal.text
    assert "Nothing was sent" in terminal.text
    with at(account, "resume", asked.run_id, "--decision", "approved") as terminal:
        types(terminal, ("Approve this?", "y"))
        assert terminal.end() == 0
    assert account.wait(asked.wait_id)["decision"] == "approved"


def test_somebody_else_was_faster(account: Account) -> None:
    asked = account.ask({"schema": AMOUNT})
    with at(account, "resume", asked.run_id) as terminal:
        types(terminal, ("amount (number", "12"), ("note (text", "mine"))
        account.answered(asked.run_id, "--json", '{"amount": 1}')
        types(terminal, ("What now?", ""))
        assert terminal.end() == 1
    assert "Your answer was not accepted. You sent:" in terminal.text
    assert "it was answered by" in terminal.text
    assert account.wait(asked.wait_id)["payload"] == {"amount": 1}


def test_the_deadline_passes_while_a_form_is_open(account: Account) -> None:
    asked = account.ask()
    with at(account, "resume", asked.run_id) as terminal:
        types(terminal, ("answer (JSON, or text)", "fine"))
        terminal.shows("What now?")
        account.deadline_passes(asked.wait_id)
        terminal.type(b"\n")
        assert terminal.end() == 1
    assert "ERR-PYOCO-0037" in terminal.text
    assert '"fine"' in terminal.text.partition("Your answer was not accepted. You sent:")[2]


def test_who_leaves_the_form_sends_nothing(account: Account) -> None:
    asked = account.ask()
    with at(account, "resume", asked.run_id) as terminal:
        types(terminal, ("answer (JSON, or text)", "fine"), ("What now?", "quit without an answer"))
        assert terminal.end() == 1
    assert "Nothing was sent; the run is still waiting." in terminal.text
    with at(account, "resume", asked.run_id) as terminal:
        terminal.shows("answer (JSON, or text)")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
    assert account.wait(asked.wait_id)["state"] == "open"


def test_a_run_that_asks_nothing_is_told_at_a_terminal(account: Account) -> None:
    with PyocoHttpClient(account.url) as client:
        run_id = client.submit_run("noop", tag="nobody")["run_id"]
    with at(account, "resume", run_id) as terminal:
        assert terminal.end() == 1
    assert "The run is PENDING; no answer is expected." in terminal.text


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("resume", NO_RUN), "standard input is not a terminal; give the answer with --json"),
        (("resume", "--json", "1"), "RUN_ID is missing"),
        (("resume", "x", "--json", "1"), "'x': expected a run id"),
        (("resume", NO_RUN, "--wait-id", "x"), "'x': expected a wait id"),
        (("resume", NO_RUN, "--run-id", NO_RUN.replace("8", "9"), "--json", "1"), "differ; use one of them"),
        (
            ("resume", NO_RUN.replace("8", "9"), "--wait-id", NO_WAIT, "--json", "1"),
            "is not a wait of",
        ),
        (("resume", NO_RUN, "--json", "{"), "--json: '{' is not JSON"),
        (("resume", NO_RUN, "--json", "NaN"), "NaN is not a JSON value"),
        (("resume", NO_RUN, "--json", "@none.json"), "--json: cannot read none.json: No such file"),
        (("resume", NO_RUN, "--decision", "maybe"), "'maybe' is not one of 'approved'"),
        (("resume", NO_RUN, "--decision", "edited"), "--decision edited needs the replacement: add --json"),
        (("resume", NO_RUN, "--decision", "approved", "--json", "1"), "takes no --json"),
        (("resume", NO_RUN, "--json", "1", "--digest", "x"), "--digest needs --decision"),
        (("retry",), "RUN_ID is missing"),
        (("waits", "--state", "done"), "'done': expected one of open, answered, expired, cancelled"),
        (("waits", "--all", "--limit", "1"), "use either --limit or --all"),
        (("waits", "--watch", "--flow", "x"), "not several of them"),
        (("waits", "--watch", "--wait-id", NO_WAIT), "not several of them"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_explained(arguments: tuple[str, ...], complaint: str) -> None:
    done = call_client(*arguments, PYOCO_SERVER="http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (1, "")
    assert complaint in done.stderr
    assert "ERR-PYOCO-0018" in done.stderr


def test_views_of_runs_show_what_they_ask_and_how_to_answer(account: Account) -> None:
    asked = account.ask({"message": "Is it right?"}, flow_name="viewed")
    command_line = f"pyoco-client resume {asked.run_id}"
    got = account.client("get", "--run-id", asked.run_id, "--output", "table", columns="200").stdout
    assert "approve asks: Is it right? (until " in got
    assert command_line in got
    listed = account.client("list", "--flow", "viewed", "--output", "table", columns="200")
    assert "Is it right? (" in listed.stdout
    assert "1 of them waits for an answer: pyoco-client waits" in listed.stderr
    assert "pyoco-client waits" in account.client("list", "--flow", "viewed", "--output", "table").stderr
    assert account.client("list", "--flow", "viewed").stderr == ""
    found = json.loads(account.client("list", "--status", "waiting_human", "--flow", "viewed").stdout)
    assert [item["run_id"] for item in found] == [asked.run_id]


def test_a_watch_tells_each_question_once(account: Account) -> None:
    asked = account.ask({"message": "Is it right?"})
    watching = command("watch", "--run-id", asked.run_id)
    with started(watching, PYOCO_SERVER=account.url) as program:
        program.writes(f"  answer with: pyoco-client resume {asked.run_id}\n")
    assert program.stdout.startswith(
        "run WAITING_HUMAN\ntask approve WAITING\napprove asks: Is it right? (until"
    )
    with on_terminal(watching, PYOCO_SERVER=account.url, COLUMNS="160") as terminal:
        terminal.shows("approve asks: Is it right?")
        terminal.shows(f"pyoco-client resume {asked.run_id}")


def test_a_question_is_told_once_and_named_where_there_are_several() -> None:
    one, two = (
        {"wait_id": f"{NO_RUN}.{name}", "task": name, "message": "?", "deadline_at": time.time() + 60}
        for name in ("a", "b")
    )
    told = NewQuestions()
    waiting = run("WAITING_HUMAN", open_waits=[one])
    assert list(told.lines(waiting))[1] == f"  answer with: pyoco-client resume {NO_RUN}"
    assert list(told.lines(waiting)) == []
    later = list(told.lines(run("WAITING_HUMAN", open_waits=[one, two])))
    assert (later[0][:5], later[1].endswith(f"resume --wait-id {NO_RUN}.b")) == ("b ask", True)
    assert list(NewQuestions().lines(run("RUNNING", open_waits=[one]))) == []


def test_a_message_cannot_steer_the_terminal() -> None:
    wait = {"wait_id": "w", "task": "t", "message": "\x1b]0;owned\x07", "deadline_at": 1.0}
    waiting = run(
        "WAITING_HUMAN", open_waits=[wait], wait_message=wait["message"], error=None, updated_at=1.0
    )
    assert "\x1b" not in shown(run_view(waiting)) + shown(runs_view([waiting]))  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("left_sec", "text"),
    [(-1, "time is up"), (30, "30s left"), (300, "5m left"), (7300, "2h left"), (864_000, "10d left")],
)
def test_how_long_is_left_is_told_in_one_unit(left_sec: float, text: str) -> None:
    assert time_left(1000.0 + left_sec, now=1000.0) == text
