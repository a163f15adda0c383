"""`pyoco-client resume`: answer what a run asks; a script gives the answer, a person fills in a form."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from msgspec import UNSET
from rich.console import RenderableType

from pyoco_server.cli.entry import examples
from pyoco_server.cli.exit_codes import CommandFailed
from pyoco_server.cli.forms.terminal_answering import answer_at_terminal, approved_at_terminal, open_wait_of
from pyoco_server.cli.forms.typed_values import parsed_json
from pyoco_server.cli.options.client_options import (
    ApiKey,
    NamedRun,
    OneRun,
    OutputForm,
    Server,
    WaitId,
    open_client,
    the_run,
)
from pyoco_server.cli.options.common_options import sendable_text
from pyoco_server.cli.views.run_views import Answer, pairs, show
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.http_client.response_types import Receipt, Resumed
from pyoco_server.records.wait_models import Decision, WaitState, run_id_of

EPILOG: Final = examples(
    "pyoco-client resume $RUN_ID",
    """pyoco-client resume $RUN_ID --json '{"decision": "approved", "note": "OK"}'""",
    "pyoco-client resume $RUN_ID --decision approved",
    """pyoco-client resume $RUN_ID --decision rejected --note "the amount is wrong\"""",
    "pyoco-client resume $RUN_ID --decision edited --json @invoice.json",
)


def resume(
    ctx: typer.Context,
    run: NamedRun = None,
    *,
    run_id: OneRun = None,
    wait_id: WaitId = None,
    json_text: Annotated[
        str | None,
        typer.Option(
            "--json", help="The answer as JSON; @FILE reads a file, - the standard input.", metavar="JSON"
        ),
    ] = None,
    decision: Annotated[
        Decision | None,
        typer.Option(
            help="About a proposal: approved, edited (with --json, the replacement) or rejected.",
            metavar="WORD",
            show_default=False,
        ),
    ] = None,
    note: Annotated[
        str | None,
        typer.Option(help="Why, for the task and the record.", metavar="TEXT", parser=sendable_text),
    ] = None,
    digest: Annotated[
        str | None,
        typer.Option(
            help="With --decision: the proposal_digest that you have seen (default: the one there is).",
            metavar="HEX",
            parser=sendable_text,
        ),
    ] = None,
    decision_id: Annotated[
        str | None,
        typer.Option(
            help="The same answer again with the same id is one answer.", metavar="ID", parser=sendable_text
        ),
    ] = None,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Answer what a run waits for; without --json and --decision, a form asks for it."""
    wanted = the_run(run, run_id, otherwise=None if wait_id is None else run_id_of(wait_id))
    _check_words(decision, json_text, note, digest)
    if wait_id is not None and run_id_of(wait_id) != wanted:
        raise InvalidCliArgument(f"--wait-id {wait_id} is no wait of the run {wanted}; leave one of them out")
    if json_text is None and decision is None and not sys.stdin.isatty():
        raise InvalidCliArgument(
            "nobody can be asked here, since the standard input is no terminal; give the answer with --json,"
            " or --decision for a proposal"
        )
    payload = UNSET if json_text is None else _payload(json_text)
    with open_client(ctx, server, api_key) as client:
        if payload is UNSET and decision is None:
            receipt: Answer = answer_at_terminal(client, wanted, wait_id, note, decision_id)
        else:
            about = About(decision, note, digest, decision_id)
            receipt = _send(client, wanted, wait_id, payload, about)
        show(receipt, output, _receipt_view)


@dataclass(frozen=True, slots=True)
class About:
    """What is said beside the answer itself."""

    decision: Decision | None
    note: str | None
    digest: str | None
    decision_id: str | None

    def with_value(self, value: Any) -> Any:
        """All of it as one payload, as `resume` takes it."""
        if self.decision is None:
            return value
        said = {"decision": self.decision, "note": self.note, "digest": self.digest, "value": value}
        return {name: each for name, each in said.items() if each not in (None, UNSET)}


def _send(
    client: PyocoHttpClient, run_id: str, wait_id: str | None, payload: Any, about: About
) -> Receipt | Resumed:
    """Whether it counts is for the gateway to say: the same answer may have been given before."""
    if about.decision is None and about.note is None and wait_id is None:
        return client.resume(run_id, payload, decision_id=about.decision_id)
    wait_id = wait_id or open_wait_of(client, run_id)
    if wait_id is None:
        return client.resume(run_id, about.with_value(payload), decision_id=about.decision_id)
    digest = about.digest
    if about.decision is not None and digest is None:
        digest = _digest_of(client, wait_id, about.decision)
    return client.respond(
        wait_id,
        payload,
        decision=about.decision,
        note=about.note,
        digest=digest,
        decision_id=about.decision_id,
    )


def _digest_of(client: PyocoHttpClient, wait_id: str, decision: Decision) -> str | None:
    """Of the proposal that there is; who approves it at a terminal has to see it first."""
    wait = client.get_wait(wait_id)
    unseen = decision is Decision.APPROVED and wait["proposal_digest"] is not None
    if unseen and wait["state"] == WaitState.OPEN and sys.stdin.isatty() and not approved_at_terminal(wait):
        raise CommandFailed("Nothing was sent; the run goes on waiting.")
    return wait["proposal_digest"]


def _check_words(
    decision: Decision | None, json_text: str | None, note: str | None, digest: str | None
) -> None:
    if decision is Decision.EDITED and json_text is None:
        raise InvalidCliArgument(
            "--decision edited needs the replacement: add --json; or leave both out, and a form asks for it"
        )
    if decision in (Decision.APPROVED, Decision.REJECTED) and json_text is not None:
        raise InvalidCliArgument(f"--decision {decision} takes no --json; leave it out, or say edited")
    if digest is not None and decision is None:
        raise InvalidCliArgument("--digest says which proposal was seen; add --decision, or leave it out")


def _payload(text: str) -> Any:
    if text == "-":
        text = sys.stdin.read()
    elif text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise InvalidCliArgument(f"--json: cannot read {text[1:]}: {reason}") from None
    try:
        return parsed_json(text)
    except ValueError as error:
        raise InvalidCliArgument(f"--json: {error}") from None


def _receipt_view(receipt: Answer) -> RenderableType:
    rows = {
        "run_id": receipt.get("run_id") or receipt.get("runId"),
        "wait_id": receipt.get("wait_id"),
        "decision": receipt.get("decision"),
        "decision_id": receipt.get("decision_id"),
    }
    again = "yes; it had been given before" if receipt.get("repeated") else "yes"
    return pairs([("answered", again), *((name, str(value)) for name, value in rows.items() if value)])
