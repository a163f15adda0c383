"""Answering a wait at a terminal: it is shown, filled in or decided on, looked at once more, and sent."""

import json
from dataclasses import dataclass
from typing import Any, Final

from msgspec import UNSET

from pyoco_server.cli.exit_codes import CommandFailed
from pyoco_server.cli.forms.answer_form import AnswerForm
from pyoco_server.cli.forms.dialogue import AtTerminal, Dialogue, confirmed, picked
from pyoco_server.cli.forms.schema_parts import shape_of
from pyoco_server.cli.views.console import notes
from pyoco_server.cli.views.wait_views import decided_text, question_view
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import PyocoHttpClient, PyocoHttpError
from pyoco_server.http_client.response_types import Receipt, Wait, WaitItem
from pyoco_server.records.models import Reason
from pyoco_server.records.wait_models import Decision, WaitState

_MOST_WAITS: Final = 200


@dataclass(frozen=True, slots=True)
class Draft:
    """What somebody is about to answer."""

    payload: Any = UNSET
    decision: Decision | None = None
    note: str | None = None

    def lines(self) -> list[str]:
        shown = (
            []
            if self.payload is UNSET
            else json.dumps(self.payload, indent=2, ensure_ascii=False).splitlines()
        )
        said = [f"decision: {self.decision}"] if self.decision else []
        return [*said, *shown, *([f"note: {self.note}"] if self.note else [])]


def answer_at_terminal(
    client: PyocoHttpClient,
    run_id: str,
    wait_id: str | None,
    note: str | None = None,
    decision_id: str | None = None,
) -> Receipt:
    """Ask for an answer until one is taken, or the person leaves."""
    dialogue = AtTerminal()
    wait = _wait_to_answer(client, run_id, wait_id, dialogue)
    notes().print(question_view(wait))
    draft = Draft(note=note)
    while True:
        draft = drafted(dialogue, wait, draft)
        if not _agreed(dialogue, draft):
            continue
        try:
            return client.respond(
                wait["wait_id"],
                draft.payload,
                decision=draft.decision,
                digest=wait["proposal_digest"],
                note=draft.note,
                decision_id=decision_id,
            )
        except PyocoHttpError as error:
            if error.word != "invalid_answer":
                dialogue.tell("Your answer was not taken. It was:")
                _show(dialogue, draft)
                raise
            for problem in error.errors:
                dialogue.tell(f"! {problem}")


def approved_at_terminal(wait: Wait) -> bool:
    """Whether somebody who said `approved` before seeing the proposal says so again."""
    notes().print(question_view(wait))
    return confirmed(AtTerminal(), "Approve this?", default=False)


def drafted(dialogue: Dialogue, wait: Wait, earlier: Draft) -> Draft:
    """An answer as the wait wants one, beginning with what was said before."""
    schema = wait.get("schema")
    if schema is False:
        raise CommandFailed("The schema of this wait is `false`: there is no answer that it would take")
    if wait["proposal_digest"] is None:
        return Draft(AnswerForm(dialogue, schema).fill(earlier.payload), note=earlier.note)
    words = ["approve it", "edit it", "reject it"]
    decision = list(Decision)[picked(dialogue, "What do you decide?", words)]
    proposal = wait.get("proposal")
    payload = UNSET
    if decision is Decision.EDITED:
        begin = proposal if earlier.payload is UNSET else earlier.payload
        payload = AnswerForm(dialogue, shape_of(proposal) if schema is None else schema).fill(begin)
    note = earlier.note
    if decision is Decision.REJECTED:
        note = dialogue.ask(f"Why? (Enter: {'no note' if note is None else 'as before'})").strip() or note
    return Draft(payload, decision, note)


def open_wait_of(client: PyocoHttpClient, run_id: str, dialogue: Dialogue | None = None) -> str | None:
    """The only open wait of a run, or the one that the person chooses; None when there is none."""
    found = client.waits(_MOST_WAITS, run_id=run_id)["items"]
    if len(found) > 1:
        return _chosen(dialogue, run_id, found)
    return found[0]["wait_id"] if found else None


def _wait_to_answer(client: PyocoHttpClient, run_id: str, wait_id: str | None, dialogue: Dialogue) -> Wait:
    wait_id = wait_id or open_wait_of(client, run_id, dialogue)
    if wait_id is None:
        raise _nothing_open(client, run_id)
    wait = client.get_wait(wait_id)
    if wait["state"] != WaitState.OPEN:
        cure = _ask_again(run_id) if wait["state"] == WaitState.EXPIRED else ""
        raise CommandFailed(f"There is nothing to answer: {decided_text(wait)}.{cure}")
    return wait


def _chosen(dialogue: Dialogue | None, run_id: str, found: list[WaitItem]) -> str:
    if dialogue is None:
        waits = "".join(f"\n  - {wait['wait_id']} ({wait['task']}: {wait['message']})" for wait in found)
        raise InvalidCliArgument(f"the run {run_id} waits for {len(found)} answers; add --wait-id:{waits}")
    dialogue.tell(f"The run waits for {len(found)} answers.")
    words = [f"{wait['task']} / {wait['name']}: {wait['message']}" for wait in found]
    return found[picked(dialogue, "Which one?", words)]["wait_id"]


def _nothing_open(client: PyocoHttpClient, run_id: str) -> CommandFailed:
    run = client.get_run(run_id)
    if run["reason"] == Reason.HUMAN_TIMEOUT:
        return CommandFailed(f"Nobody has answered in time, and the run is FAILED.{_ask_again(run_id)}")
    return CommandFailed(f"The run is {run['status']}; it waits for nobody's answer.")


def _ask_again(run_id: str) -> str:
    return f"\n  Ask again with: pyoco-client retry {run_id}"


def _agreed(dialogue: Dialogue, draft: Draft) -> bool:
    """Whether it shall be sent as it is; False: it is to be changed."""
    dialogue.tell("Your answer:")
    _show(dialogue, draft)
    words = ["send it", "change it", "leave without an answer"]
    choice = picked(dialogue, "What now?", words, default=0)
    if words[choice] == words[-1]:
        raise CommandFailed("Nothing was sent; the run goes on waiting.")
    return choice == 0


def _show(dialogue: Dialogue, draft: Draft) -> None:
    for line in draft.lines():
        dialogue.tell(f"  {line}")
