"""`pyoco-client` commands that change an open wait: wait-withdraw, wait-extend, wait-reassign."""

from typing import Annotated

import typer

from pyoco_server.cli.commands.waits.resume_command import open_wait_of
from pyoco_server.cli.entry import CommandFailed
from pyoco_server.cli.options.client_options import OutputOption, client_command
from pyoco_server.cli.options.shared_options import flag, option, text_option
from pyoco_server.cli.options.time_formats import parse_deadline, parse_duration
from pyoco_server.cli.views.console import show
from pyoco_server.cli.views.wait_views import wait_view
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.records.value_types import is_run_id
from pyoco_server.records.waits.wait_models import is_wait_id


def _checked_id(text: str) -> str:
    if not (is_run_id(text) or is_wait_id(text)):
        raise typer.BadParameter(
            f"{text!r}: expected a wait id as shown by `waits --output json`, or the id of a run"
        )
    return text


WaitOrRun = Annotated[
    str,
    typer.Argument(
        help="The wait id, or the id of a run with one open wait.", metavar="ID", parser=_checked_id
    ),
]
Why = Annotated[str | None, text_option("Reason, kept in the history.", "TEXT", "--reason")]


@client_command('pyoco-client wait-withdraw $RUN_ID --reason "the invoice was cancelled"')
def wait_withdraw(
    client: PyocoHttpClient,
    wait: WaitOrRun,
    *,
    reason: Annotated[str, text_option("Reason; shown as the error of the run.", "TEXT")],
    output: OutputOption = None,
) -> None:
    show(client.withdraw_wait(_wait_id(client, wait), reason), output, wait_view)


@client_command(
    "pyoco-client wait-extend $RUN_ID --by 2h",
    'pyoco-client wait-extend $RUN_ID --until 2027-01-31T17:00 --reason "year-end closing"',
)
def wait_extend(
    client: PyocoHttpClient,
    wait: WaitOrRun,
    *,
    by: Annotated[
        float | None,
        option("Time to add to the current deadline, such as 30m, 2h or 7d.", "TIME", parser=parse_duration),
    ] = None,
    until: Annotated[
        float | None,
        option("The new deadline, such as 2027-01-31T17:00, or unix seconds.", "TIME", parser=parse_deadline),
    ] = None,
    reason: Why = None,
    output: OutputOption = None,
) -> None:
    if (by is None) == (until is None):
        raise InvalidCliArgument("use either --by or --until")
    wait_id = _wait_id(client, wait)
    deadline_at = until if by is None else (client.get_wait(wait_id)["deadline_at"] or 0.0) + by
    assert deadline_at is not None
    show(client.extend_wait(wait_id, deadline_at, reason=reason), output, wait_view)


@client_command(
    "pyoco-client wait-reassign $RUN_ID --to ann --to bob",
    "pyoco-client wait-reassign $RUN_ID --everybody",
)
def wait_reassign(
    client: PyocoHttpClient,
    wait: WaitOrRun,
    *,
    to: Annotated[
        list[str] | None,
        text_option("Who may answer: an API key (name or id) or group:NAME; repeatable.", "NAME"),
    ] = None,
    everybody: Annotated[
        bool, flag("--everybody", "Everybody of the tenant may answer, as without assignees.")
    ] = False,
    reason: Why = None,
    output: OutputOption = None,
) -> None:
    if bool(to) == everybody:
        raise InvalidCliArgument("use either --to or --everybody")
    show(client.reassign_wait(_wait_id(client, wait), to or [], reason=reason), output, wait_view)


def _wait_id(client: PyocoHttpClient, given: str) -> str:
    if is_wait_id(given):
        return given
    wait_id = open_wait_of(client, given)
    if wait_id is None:
        raise CommandFailed(f"The run {given} has no open wait.")
    return wait_id
