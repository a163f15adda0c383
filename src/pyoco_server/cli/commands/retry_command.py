"""`pyoco-client retry`: ask again what nobody has answered in time."""

from typing import Final

import typer

from pyoco_server.cli.entry import examples
from pyoco_server.cli.options.client_options import (
    ApiKey,
    NamedRun,
    OneRun,
    OutputForm,
    Server,
    open_client,
    the_run,
)
from pyoco_server.cli.views.run_views import run_view, show

EPILOG: Final = examples("pyoco-client retry $RUN_ID")


def retry(
    ctx: typer.Context,
    run: NamedRun = None,
    *,
    run_id: OneRun = None,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Ask again what nobody has answered in time; what finished before is not executed again."""
    wanted = the_run(run, run_id)
    with open_client(ctx, server, api_key) as client:
        show(client.retry(wanted), output, run_view)
