"""`pyoco-client resume`: sends an answer given as options, or asks for it on the terminal."""

import json
import sys
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypedDict

from msgspec import UNSET
from rich.console import RenderableType

from pyoco_server.cli.entry import CommandFailed
from pyoco_server.cli.forms.answer_form import AnswerForm
from pyoco_server.cli.forms.dialogue import Dialogue, TerminalDialogue, confirmed, picked
from pyoco_server.cli.forms.schema_parts import shape_of
from pyoco_server.cli.options.client_options import (
    OutputOption,
    RunIdArgument,
    RunIdOption,
    WaitId,
    client_command,
    required_run_id,
)
from pyoco_server.cli.options.json_option import given_json
from pyoco_server.cli.options.shared_options import option, text_option
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, show, stderr_console
from pyoco_server.cli.views.copied_commands import with_server
from pyoco_server.cli.views.run_views import Json
from pyoco_server.cli.views.wait_views import decided_text, question_view
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import PyocoHttpClient, PyocoHttpError
from pyoco_server.http_client.response_types import Receipt, Resumed, Wait, WaitItem
from pyoco_server.records.runs.run_models import UNANSWERED, Reason
from pyoco_server.records.waits.wait_models import Decision, WaitState, run_id_of_wait

_NOTHING_SENT: Final = "Nothing was sent; the run is still waiting."
_MAX_WAITS: Final = 200


@client_command(
    "pyoco-client resume $RUN_ID",
    """pyoco-client resume $RUN_ID --json '{"decision": "approved", "note": "OK"}'""",
    "pyoco-client resume $RUN_ID --decision approved",
    """pyoco-client resume $RUN_ID --decision rejected --note "the amount is wrong\"""",
    "pyoco-client resume $RUN_ID --decision edited --json @invoice.json",
)
def resume(
    client: PyocoHttpClient,
    run: RunIdArgument = None,
    *,
    run_id: RunIdOption = None,
    wait_id: WaitId = None,
    json_text: Annotated[
        str | None, option("The answer as JSON; @FILE reads a file, - standard input.", "JSON", "--json")
    ] = None,
    decision: Annotated[
        Decision | None,
        option(
            "Decision on a proposal: approved, edited (with the replacement as --json) or rejected.",
            "WORD",
            show_default=False,
        ),
    ] = None,
    note: Annotated[str | None, text_option("Note for the task, recorded with the answer.", "TEXT")] = None,
    digest: Annotated[
        str | None,
        text_option("With --decision: the proposal_digest you reviewed (default: the current one).", "HEX"),
    ] = None,
    decision_id: Annotated[
        str | None, text_option("Idempotency id: the same answer with the same id counts once.", "ID")
    ] = None,
    on_behalf_of: Annotated[
        str | None, text_option("For whom you answer, recorded beside your API key.", "NAME")
    ] = None,
    output: OutputOption = None,
) -> None:
    run_id = required_run_id(run, run_id, default=None if wait_id is None else run_id_of_wait(wait_id))
    _check_options(decision, json_text, digest)
    if wait_id is not None and run_id_of_wait(wait_id) != run_id:
        raise InvalidCliArgument(f"--wait-id {wait_id} is not a wait of the run {run_id}; use one of them")
    origin = AnswerOrigin(decision_id=decision_id, on_behalf_of=on_behalf_of)
    if json_text is None and decision is None:
        if not sys.stdin.isatty():
            raise InvalidCliArgument(
                "cannot prompt because standard input is not a terminal; give the answer with --json,"
                " or --decision for a proposal"
            )
        receipt: Json = _prompt_for_answer(client, run_id, wait_id, note, origin)
    else:
        draft = Draft(UNSET if json_text is None else given_json(json_text), decision, note)
        receipt = _send(client, run_id, wait_id, draft, digest=digest, origin=origin)
    show(receipt, output, _receipt_view)


def _check_options(decision: Decision | None, json_text: str | None, digest: str | None) -> None:
    if decision is Decision.EDITED and json_text is None:
        raise InvalidCliArgument(
            "--decision edited needs the replacement: add --json, or omit both to be prompted"
        )
    if decision in (Decision.APPROVED, Decision.REJECTED) and json_text is not None:
        raise InvalidCliArgument(f"--decision {decision} takes no --json; omit it, or use --decision edited")
    if digest is not None and decision is None:
        raise InvalidCliArgument("--digest needs --decision: it names the proposal you reviewed")


class AnswerOrigin(TypedDict):
    """What is recorded of an answer besides its content."""

    decision_id: str | None
    on_behalf_of: str | None


@dataclass(frozen=True, slots=True)
class Draft:
    """An answer before it is sent."""

    payload: Any = UNSET
    decision: Decision | None = None
    note: str | None = None

    def lines(self) -> list[str]:
        is_empty = self.payload is UNSET
        payload = [] if is_empty else json.dumps(self.payload, indent=2, ensure_ascii=False).splitlines()
        decision = [f"decision: {self.decision}"] if self.decision else []
        return [*decision, *payload, *([f"note: {self.note}"] if self.note else [])]


def _send(
    client: PyocoHttpClient,
    run_id: str,
    wait_id: str | None,
    draft: Draft,
    *,
    digest: str | None,
    origin: AnswerOrigin,
) -> Receipt | Resumed:
    """Send an answer without checking the wait here: it may repeat one that was accepted before."""
    if draft.decision is None and draft.note is None and wait_id is None:
        return client.resume(run_id, draft.payload, **origin)
    wait_id = wait_id or open_wait_of(client, run_id)
    if wait_id is None:
        return client.resume(run_id, _resume_payload(draft, digest), **origin)
    if draft.decision is not None and digest is None:
        digest = _reviewed_digest(client, wait_id, draft.decision)
    return client.respond(
        wait_id,
        draft.payload,
        decision=draft.decision,
        note=draft.note,
        digest=digest,
        **origin,
    )


def _resume_payload(draft: Draft, digest: str | None) -> Any:
    if draft.decision is None:
        return draft.payload
    fields = {"decision": draft.decision, "note": draft.note, "digest": digest, "value": draft.payload}
    return {name: value for name, value in fields.items() if value not in (None, UNSET)}


def _reviewed_digest(client: PyocoHttpClient, wait_id: str, decision: Decision) -> str | None:
    """The digest of the current proposal; on a terminal, an approval must be confirmed after seeing it."""
    wait = client.get_wait(wait_id)
    unseen = decision is Decision.APPROVED and wait["proposal_digest"] is not None
    if unseen and wait["state"] == WaitState.OPEN and sys.stdin.isatty():
        stderr_console().print(question_view(wait))
        if not confirmed(TerminalDialogue(), localized("Approve this?"), default=False):
            raise CommandFailed(localized(_NOTHING_SENT))
    return wait["proposal_digest"]


def _receipt_view(receipt: Json) -> RenderableType:
    rows = {
        "run_id": receipt.get("run_id") or receipt.get("runId"),
        "wait_id": receipt.get("wait_id"),
        "decision": receipt.get("decision"),
        "decision_id": receipt.get("decision_id"),
    }
    again = localized("yes; the same answer was given before" if receipt.get("repeated") else "yes")
    if receipt.get("state") == WaitState.OPEN:
        counted = {"given": receipt["approvals"], "required": receipt["required"]}
        again += localized("; {given} of {required} approvals, the run still waits", **counted)
    return pairs([("answered", again), *((name, str(value)) for name, value in rows.items() if value)])


def _prompt_for_answer(
    client: PyocoHttpClient,
    run_id: str,
    wait_id: str | None,
    note: str | None,
    origin: AnswerOrigin,
) -> Receipt:
    """Prompt until an answer is accepted or the user quits."""
    dialogue = TerminalDialogue()
    wait = _wait_to_answer(client, run_id, wait_id, dialogue)
    stderr_console().print(question_view(wait))
    draft = Draft(note=note)
    while True:
        draft = drafted(dialogue, wait, draft)
        if not _is_confirmed(dialogue, draft):
            continue
        try:
            return client.respond(
                wait["wait_id"],
                draft.payload,
                decision=draft.decision,
                digest=wait["proposal_digest"],
                note=draft.note,
                **origin,
            )
        except PyocoHttpError as error:
            if error.word != "invalid_answer":
                dialogue.print(localized("Your answer was not accepted. You sent:"))
                _show(dialogue, draft)
                raise
            for problem in error.errors:
                dialogue.print(f"! {problem}")


def drafted(dialogue: Dialogue, wait: Wait, earlier: Draft) -> Draft:
    """Prompt for an answer to the wait, starting with the previous draft."""
    schema = wait.get("schema")
    if schema is False:
        raise CommandFailed("The schema of this wait is `false`: it accepts no answer")
    if wait["proposal_digest"] is None:
        return Draft(AnswerForm(dialogue, schema).fill(earlier.payload), note=earlier.note)
    words = [localized(word) for word in ("approve it", "edit it", "reject it")]
    decision = list(Decision)[picked(dialogue, localized("What do you decide?"), words)]
    proposal = wait.get("proposal")
    payload = UNSET
    if decision is Decision.EDITED:
        initial = proposal if earlier.payload is UNSET else earlier.payload
        payload = AnswerForm(dialogue, shape_of(proposal) if schema is None else schema).fill(initial)
    note = earlier.note
    if decision is Decision.REJECTED:
        question = "Why? (Enter: no note)" if note is None else "Why? (Enter: as before)"
        note = dialogue.ask(localized(question)).strip() or note
    return Draft(payload, decision, note)


def open_wait_of(client: PyocoHttpClient, run_id: str, dialogue: Dialogue | None = None) -> str | None:
    """The only open wait of the run, or the one the user picks; None when there is none."""
    found = client.waits(_MAX_WAITS, run_id=run_id)["items"]
    if len(found) > 1:
        return _chosen(dialogue, run_id, found)
    return found[0]["wait_id"] if found else None


def _wait_to_answer(client: PyocoHttpClient, run_id: str, wait_id: str | None, dialogue: Dialogue) -> Wait:
    wait_id = wait_id or open_wait_of(client, run_id, dialogue)
    if wait_id is None:
        raise _nothing_open(client, run_id)
    wait = client.get_wait(wait_id)
    if wait["state"] != WaitState.OPEN:
        hint = _ask_again(run_id) if client.get_run(run_id)["reason"] in UNANSWERED else ""
        raise CommandFailed(f"No answer is expected: {decided_text(wait)}.{hint}")
    return wait


def _chosen(dialogue: Dialogue | None, run_id: str, found: list[WaitItem]) -> str:
    if dialogue is None:
        waits = "".join(f"\n  - {wait['wait_id']} ({wait['task']}: {wait['message']})" for wait in found)
        raise InvalidCliArgument(
            f"the run {run_id} is waiting for {len(found)} answers; add --wait-id:{waits}"
        )
    dialogue.print(localized("The run is waiting for {count} answers.").format(count=len(found)))
    words = [f"{wait['task']} / {wait['name']}: {wait['message']}" for wait in found]
    return found[picked(dialogue, localized("Which one?"), words)]["wait_id"]


def _nothing_open(client: PyocoHttpClient, run_id: str) -> CommandFailed:
    run = client.get_run(run_id)
    if run["reason"] == Reason.HUMAN_TIMEOUT:
        return CommandFailed(localized("The question expired, and the run is FAILED.") + _ask_again(run_id))
    if run["reason"] == Reason.HUMAN_WITHDRAWN:
        return CommandFailed(
            localized("The question was withdrawn, and the run is FAILED.") + _ask_again(run_id)
        )
    return CommandFailed(
        localized("The run is {status}; no answer is expected.").format(status=run["status"])
    )


def _ask_again(run_id: str) -> str:
    return f"\n  {localized('Ask again with')}: {with_server(f'pyoco-client retry {run_id}')}"


def _is_confirmed(dialogue: Dialogue, draft: Draft) -> bool:
    """True: send it; False: change it."""
    dialogue.print(localized("Your answer:"))
    _show(dialogue, draft)
    words = [localized(word) for word in ("send it", "change it", "quit without an answer")]
    choice = picked(dialogue, localized("What now?"), words, default=0)
    if words[choice] == words[-1]:
        raise CommandFailed(localized(_NOTHING_SENT))
    return choice == 0


def _show(dialogue: Dialogue, draft: Draft) -> None:
    for line in draft.lines():
        dialogue.print(f"  {line}")
