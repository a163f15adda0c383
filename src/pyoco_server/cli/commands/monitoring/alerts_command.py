"""`pyoco-client alerts`: conditions of runs, queues and workers that are reported to people."""

from pathlib import Path
from typing import Annotated

import typer

from pyoco_server.cli.commands.monitoring.alert_file import read_alert_file
from pyoco_server.cli.options.client_options import (
    AllPages,
    Limit,
    OutputOption,
    client_command,
    listed,
)
from pyoco_server.cli.options.shared_options import option, text_option
from pyoco_server.cli.options.time_formats import parse_duration
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.alert_views import (
    alert_view,
    alerts_view,
    history_view,
    saved_view,
    tested_channels_view,
)
from pyoco_server.cli.views.console import pairs, show
from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.records.monitoring.alert_models import ALERT_ID_EXPECTED, is_alert_id


def _checked_alert_id(text: str) -> str:
    if not is_alert_id(text):
        raise typer.BadParameter(f"{text!r}: {ALERT_ID_EXPECTED}")
    return text


AlertIdArgument = Annotated[
    str, typer.Argument(help="The id of the alert.", metavar="ALERT_ID", parser=_checked_alert_id)
]
Tenant = Annotated[str | None, text_option("For operators: the tenant of the alert.", "ID")]
Revision = Annotated[
    int | None, option("Only if the alert is still at this revision.", "N", min=1, show_default=False)
]


@client_command("pyoco-client alerts list", "pyoco-client alerts list --search orders --output json")
def list_alerts(
    client: PyocoHttpClient,
    *,
    search: Annotated[
        str | None, text_option("Only alerts with this text in their id, flow, tag or note.", "TEXT")
    ] = None,
    limit: Limit = None,
    all_pages: AllPages = False,
    output: OutputOption = None,
) -> None:
    found = listed(lambda size: client.iter_alerts(size, q=search), limit, all_pages)
    show(found, output, alerts_view)


@client_command("pyoco-client alerts show orders-failing")
def show_alert(
    client: PyocoHttpClient, alert_id: AlertIdArgument, *, tenant: Tenant = None, output: OutputOption = None
) -> None:
    show(client.get_alert(alert_id, tenant=tenant), output, alert_view)


@client_command(
    "pyoco-client alerts apply -f alerts.yaml",
    "pyoco-client alerts apply --file alerts.yaml --output json",
)
def apply(
    client: PyocoHttpClient,
    *,
    file: Annotated[
        Path, option("The file with the alerts.", "FILE", "-f", "--file", exists=True, dir_okay=False)
    ],
    output: OutputOption = None,
) -> None:
    declared = read_alert_file(file)
    saved = [client.save_alert(each.alert_id, **each.body) for each in declared]
    show(saved, output, saved_view)


@client_command(
    "pyoco-client alerts test orders-failing", "pyoco-client alerts test orders-failing --channel slack"
)
def send_test(
    client: PyocoHttpClient,
    alert_id: AlertIdArgument,
    *,
    channel: Annotated[str | None, text_option("Only this channel (default: all).")] = None,
    tenant: Tenant = None,
    output: OutputOption = None,
) -> None:
    tested = client.send_test_alert(alert_id, channel=channel, tenant=tenant)
    show(tested, output, tested_channels_view)
    if not all(each["ok"] for each in tested["channels"]):
        raise typer.Exit(1)


@client_command(
    'pyoco-client alerts mute orders-failing --for 2h --note "Migration of the database"',
    "pyoco-client alerts mute orders-failing",
)
def mute(
    client: PyocoHttpClient,
    alert_id: AlertIdArgument,
    *,
    for_sec: Annotated[
        float | None,
        option(
            "For how long, such as 30m, 2h or 7d (default: until `alerts unmute`).",
            "TIME",
            "--for",
            parser=parse_duration,
        ),
    ] = None,
    note: Annotated[str, text_option("Why, for people.", "TEXT")] = "",
    tenant: Tenant = None,
    output: OutputOption = None,
) -> None:
    show(client.mute_alert(alert_id, for_sec=for_sec, note=note, tenant=tenant), output, alert_view)


@client_command("pyoco-client alerts unmute orders-failing")
def unmute(
    client: PyocoHttpClient, alert_id: AlertIdArgument, *, tenant: Tenant = None, output: OutputOption = None
) -> None:
    show(client.unmute_alert(alert_id, tenant=tenant), output, alert_view)


@client_command("pyoco-client alerts delete orders-failing")
def delete(
    client: PyocoHttpClient,
    alert_id: AlertIdArgument,
    *,
    revision: Revision = None,
    tenant: Tenant = None,
    output: OutputOption = None,
) -> None:
    deleted = client.delete_alert(alert_id, revision=revision, tenant=tenant)
    show(deleted, output, lambda it: pairs([("alert_id", it["alert_id"]), ("deleted", localized("yes"))]))


@client_command("pyoco-client alerts history orders-failing")
def history(
    client: PyocoHttpClient, alert_id: AlertIdArgument, *, tenant: Tenant = None, output: OutputOption = None
) -> None:
    show(client.alert_history(alert_id, tenant=tenant)["items"], output, history_view)
