"""`pyoco-client tasks`: what the tasks of a run did."""

from typing import Final

import typer

from pyoco_server.cli.entry import examples
from pyoco_server.cli.options.client_options import ApiKey, OutputForm, RunId, Server, open_client
from pyoco_server.cli.views.run_views import show, tasks_view

EPILOG: Final = examples("pyoco-client tasks --run-id $RUN_ID")


def tasks(
    ctx: typer.Context,
    *,
    run_id: RunId,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Show the tasks of a run: their states, results and errors."""
    with open_client(ctx, server, api_key) as client:
        show(client.get_tasks(run_id), output, tasks_view)
