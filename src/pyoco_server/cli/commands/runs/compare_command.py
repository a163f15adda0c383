"""`pyoco-client compare`."""

from typing import Annotated

from pyoco_server.cli.commands.runs.run_comparison import compared
from pyoco_server.cli.options.client_options import OutputOption, RunId, client_command
from pyoco_server.cli.options.shared_options import flag
from pyoco_server.cli.views.comparison_view import comparison_view
from pyoco_server.cli.views.console import show
from pyoco_server.http_client import PyocoHttpClient


@client_command(
    "pyoco-client compare $RUN_ID 44f38d5a-592e-466c-a13b-b54e10af6e7a",
    "pyoco-client compare $RUN_ID 44f38d5a-592e-466c-a13b-b54e10af6e7a --all",
)
def compare(
    client: PyocoHttpClient,
    run: RunId,
    other_run: RunId,
    *,
    with_equal: Annotated[bool, flag("--all", "Show what is the same as well.")] = False,
    output: OutputOption = None,
) -> None:
    found = compared(client.get_run(run, ["records"]), client.get_run(other_run, ["records"]))
    show(found, output, lambda found: comparison_view(found, with_equal=with_equal))
