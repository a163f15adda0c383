"""`pyoco-client cancel`: ask a run to stop."""

from typing import Annotated, Final

import typer

from pyoco_server.cli.commands.run_waiting import check_limit, wait_for_end
from pyoco_server.cli.entry import examples
from pyoco_server.cli.exit_codes import CommandFailed
from pyoco_server.cli.options.client_options import ApiKey, OutputForm, RunId, Server, WaitLimit, open_client
from pyoco_server.cli.options.common_options import sendable_text
from pyoco_server.cli.views.run_views import run_view, show

EPILOG: Final = examples(
    "pyoco-client cancel --run-id $RUN_ID",
    'pyoco-client cancel --run-id $RUN_ID --reason "wrong input" --wait',
)


def cancel(
    ctx: typer.Context,
    *,
    run_id: RunId,
    reason: Annotated[
        str | None,
        typer.Option(help="Why, for whoever looks at the run.", metavar="TEXT", parser=sendable_text),
    ] = None,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait for the run's end; exit 0 once it has ended.", metavar=""),
    ] = False,
    timeout_sec: WaitLimit = None,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Ask a run to stop; one that has ended stays as it is."""
    check_limit(wait, timeout_sec)
    with open_client(ctx, server, api_key) as client:
        run = client.cancel_run(run_id, reason)
        if wait:
            try:
                run = wait_for_end(client, run_id, timeout_sec)
            except TimeoutError as error:
                raise CommandFailed(str(error)) from None
        show(run, output, run_view)
