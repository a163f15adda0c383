"""`pyoco-client get`: one run, and why it has not ended if it has not."""

from typing import Annotated, Final

import typer
from rich.console import Group
from rich.text import Text

from pyoco_server.cli.commands.explain_command import explanation_view
from pyoco_server.cli.entry import examples
from pyoco_server.cli.options.client_options import ApiKey, OutputForm, RunId, Server, open_client
from pyoco_server.cli.options.common_options import sendable_text
from pyoco_server.cli.views.console import say
from pyoco_server.cli.views.run_views import Output, chosen, run_view, show
from pyoco_server.http_client import GatewayUnreachable, PyocoHttpClient, PyocoHttpError
from pyoco_server.http_client.response_types import Explanation
from pyoco_server.records.models import TERMINAL

EPILOG: Final = examples(
    "pyoco-client get --run-id $RUN_ID", "pyoco-client get --run-id $RUN_ID --include records"
)


def get(
    ctx: typer.Context,
    *,
    run_id: RunId,
    include: Annotated[
        list[str] | None,
        typer.Option(
            help="What to add: records, full or all; repeatable.",
            metavar="WHAT",
            parser=sendable_text,
            autocompletion=lambda: ["records", "full", "all"],
        ),
    ] = None,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Show the newest snapshot of a run; and why it has not ended yet."""
    with open_client(ctx, server, api_key) as client:
        run = client.get_run(run_id, include or ())
        why = None
        if chosen(output) is Output.TABLE and run["status"] not in TERMINAL:
            why = _explanation(client, run_id)
        show(
            run,
            output,
            lambda run: Group(run_view(run), Text(), explanation_view(why)) if why else run_view(run),
        )


def _explanation(client: PyocoHttpClient, run_id: str) -> Explanation | None:
    try:
        return client.explain(run_id)
    except (GatewayUnreachable, PyocoHttpError) as error:
        # The run is known: the command does not fail for what it would show beside it.
        say(f"Why it has not ended cannot be shown: {error}")
        return None
