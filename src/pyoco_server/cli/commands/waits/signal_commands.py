"""`pyoco-client signal`, `signals` and `event`."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from pyoco_server.cli.options.client_options import (
    OutputOption,
    RunId,
    RunIdArgument,
    RunIdOption,
    SignalKey,
    checked_key,
    client_command,
    required_run_id,
)
from pyoco_server.cli.options.json_option import JsonText, given_json
from pyoco_server.cli.options.shared_options import option
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, show
from pyoco_server.cli.views.list_views import signals_table
from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.records.waits.wait_models import TOPIC_EXPECTED, is_topic


def _checked_topic(text: str) -> str:
    if not is_topic(text):
        raise typer.BadParameter(f"{text!r}: expected {TOPIC_EXPECTED}")
    return text


Name = Annotated[
    str,
    typer.Argument(help="The name that the task waits for.", metavar="NAME", parser=_checked_topic),
]


@client_command(
    "pyoco-client signal $RUN_ID approved",
    """pyoco-client signal $RUN_ID paid --json '{"amount": 1200}'""",
    "pyoco-client signal $RUN_ID document --json @document.json --idempotency-key doc-7",
)
def signal(
    client: PyocoHttpClient,
    run: RunId,
    name: Name,
    *,
    json_text: JsonText = None,
    idempotency_key: SignalKey = None,
    output: OutputOption = None,
) -> None:
    sent = client.send_signal(run, name, given_json(json_text), idempotency_key=idempotency_key)
    show(sent, output, lambda sent: pairs([("signal", name), ("run_id", run), *_texts(sent)]))


@client_command("pyoco-client signals $RUN_ID", "pyoco-client signals $RUN_ID --output json")
def signals(
    client: PyocoHttpClient,
    run: RunIdArgument = None,
    *,
    run_id: RunIdOption = None,
    output: OutputOption = None,
) -> None:
    sent = client.list_signals(required_run_id(run, run_id))
    show(sent, output, signals_table)


@client_command(
    """pyoco-client event order.paid --json '{"order": {"id": 7}}'""",
    "pyoco-client event stock.changed --json @stock.json --id stock-2026-11-17",
)
def event(
    client: PyocoHttpClient,
    name: Name,
    *,
    json_text: JsonText = None,
    event_id: Annotated[
        str | None,
        option(
            "The same id of the same name is one event, however often it is sent (default: a new one).",
            "ID",
            "--id",
            parser=checked_key,
        ),
    ] = None,
    output: OutputOption = None,
) -> None:
    sent = client.send_event(name, given_json(json_text), event_id=event_id)
    show(sent, output, lambda sent: pairs([("event", name), *_texts(sent)]))


def _texts(sent: Mapping[str, Any]) -> list[tuple[str, str]]:
    yes_or_no = {True: localized("yes; it was sent before"), False: localized("no")}
    return [(label, yes_or_no.get(value, str(value))) for label, value in sent.items()]
