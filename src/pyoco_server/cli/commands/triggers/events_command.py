"""`pyoco-client events`: workflow events, their month summary, the retry queue, and notifications."""

import re
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from pyoco_server.cli.options.client_options import OutputOption, client_command
from pyoco_server.cli.options.json_option import JsonText, given_json
from pyoco_server.cli.options.shared_options import flag, option, text_option
from pyoco_server.cli.options.trigger_options import EventToken, checked_template_id, typed_secret
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, show
from pyoco_server.cli.views.workflow_event_views import (
    accepted_view,
    drained_view,
    notification_view,
    recent_view,
    retry_jobs_view,
    summary_view,
)
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import PyocoHttpClient

_KEY: Final = re.compile(r"[A-Za-z0-9._:@-]{1,128}")


def _checked_key(text: str) -> str:
    if not _KEY.fullmatch(text):
        raise typer.BadParameter(f"{text!r}: expected 1 to 128 letters, digits, '.', '_', ':', '@' or '-'")
    return text


Month = Annotated[
    str | None,
    text_option("The month of the events, such as 2026-11 (default: this month in UTC).", "YYYY-MM"),
]


@client_command(
    "pyoco-client events send --template monthly-close --key close-2026-11 --year 2026 --month 11",
    """pyoco-client events send --event close_month --year 2026 --month 11 --json '{"department": 4}'""",
)
def send(
    client: PyocoHttpClient,
    *,
    template: Annotated[
        str | None, option("The id of the template.", "TEMPLATE_ID", parser=checked_template_id)
    ] = None,
    event: Annotated[
        str | None, text_option("Or the action of its first step, if only one template has it.")
    ] = None,
    key: Annotated[
        str | None,
        option(
            "The same key starts one run, however often it is sent (default: a new one).",
            "KEY",
            "--key",
            "--idempotency-key",
            parser=_checked_key,
        ),
    ] = None,
    year: Annotated[int | None, option("The year it is about (default: the template's).", "YEAR")] = None,
    month: Annotated[int | None, option("The month it is about (default: the template's).", "MONTH")] = None,
    json_text: JsonText = None,
    source: Annotated[str | None, text_option("Who sends it (default: webhook).", "TEXT")] = None,
    mfcloud_url: Annotated[str | None, text_option("The mfcloud_url of the run.", "URL")] = None,
    notes: Annotated[str | None, text_option("The notes of the run.", "TEXT")] = None,
    token: EventToken = None,
    output: OutputOption = None,
) -> None:
    sent = client.send_workflow_event(
        template,
        event_name=event,
        idempotency_key=key,
        year=year,
        month=month,
        payload=given_json(json_text),
        source=source,
        mfcloud_url=mfcloud_url,
        notes=notes,
        token=token,
    )
    show(sent, output, accepted_view)


@client_command("pyoco-client events summary", "pyoco-client events summary --month 2026-10 --output json")
def summary(
    client: PyocoHttpClient, *, month: Month = None, token: EventToken = None, output: OutputOption = None
) -> None:
    show(client.event_summary(_month(month), token=token), output, summary_view)


@client_command("pyoco-client events recent", "pyoco-client events recent --month 2026-10 --limit 100")
def recent(
    client: PyocoHttpClient,
    *,
    month: Month = None,
    limit: Annotated[int | None, option("How many, 1 to 200 (default: 20).", "N", min=1, max=200)] = None,
    token: EventToken = None,
    output: OutputOption = None,
) -> None:
    show(client.event_summary(_month(month), limit, token=token)["recent"], output, recent_view)


@client_command("pyoco-client events retry-jobs", "pyoco-client events retry-jobs --limit 100")
def retry_jobs(
    client: PyocoHttpClient,
    *,
    limit: Annotated[int | None, option("How many, 1 to 200 (default: 20).", "N", min=1, max=200)] = None,
    token: EventToken = None,
    output: OutputOption = None,
) -> None:
    show(client.list_retry_jobs(limit, token=token), output, retry_jobs_view)


@client_command("pyoco-client events drain", "pyoco-client events drain --limit 50 --force")
def drain(
    client: PyocoHttpClient,
    *,
    limit: Annotated[
        int | None, option("How many at most, 1 to 50 (default: 10).", "N", min=1, max=50)
    ] = None,
    force: Annotated[bool, flag("--force", "Also jobs whose time has not come.")] = False,
    token: EventToken = None,
    output: OutputOption = None,
) -> None:
    show(client.drain_retry_jobs(limit, force=force, token=token), output, drained_view)


@client_command("pyoco-client events notification")
def notification(client: PyocoHttpClient, *, token: EventToken = None, output: OutputOption = None) -> None:
    show(client.notification_settings(token=token), output, notification_view)


@client_command(
    "pyoco-client events notification-set --webhook-url -",
    "pyoco-client events notification-set --clear",
)
def notification_set(
    client: PyocoHttpClient,
    *,
    webhook_url: Annotated[
        str | None,
        text_option(
            "The Google Chat webhook; - reads it from standard input, so that no other user sees it.", "URL"
        ),
    ] = None,
    clear: Annotated[bool, flag("--clear", "Remove the stored webhook.")] = False,
    token: EventToken = None,
    output: OutputOption = None,
) -> None:
    if clear is (webhook_url is not None):
        raise InvalidCliArgument("use either --webhook-url or --clear")
    url = "" if webhook_url is None else _typed_url(webhook_url)
    show(client.save_notification_settings(url, token=token), output, notification_view)


@client_command("pyoco-client events notification-test")
def notification_test(
    client: PyocoHttpClient, *, token: EventToken = None, output: OutputOption = None
) -> None:
    tested = client.send_test_notification(token=token)
    show(
        tested,
        output,
        lambda it: pairs([("sent", localized("yes" if it["sent"] else "no")), ("message", it["message"])]),
    )


def _month(given: str | None) -> str:
    return given or datetime.now(UTC).strftime("%Y-%m")


def _typed_url(text: str) -> str:
    url = typed_secret(text)
    if not url:
        raise InvalidCliArgument("the webhook URL is empty; --clear removes the stored one")
    return url
