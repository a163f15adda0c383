"""`pyoco-client explain`: why a run is where it is. `get` shows the same of a run that has not ended."""

from collections.abc import Iterator
from typing import Final

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from pyoco_server.cli.entry import examples
from pyoco_server.cli.options.client_options import ApiKey, OutputForm, RunId, Server, open_client
from pyoco_server.cli.views.console import printable
from pyoco_server.cli.views.run_views import show
from pyoco_server.http_client.response_types import Explanation, Finding

EPILOG: Final = examples("pyoco-client explain --run-id $RUN_ID")


def explain(
    ctx: typer.Context,
    *,
    run_id: RunId,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Say why a run is where it is, what happens next, and what can be done about it."""
    with open_client(ctx, server, api_key) as client:
        show(client.explain(run_id), output, explanation_view)


def explanation_view(explanation: Explanation) -> RenderableType:
    return Group(*(part for finding in explanation["findings"] for part in _parts(finding)))


def _parts(finding: Finding) -> Iterator[RenderableType]:
    yield Text.assemble((printable(finding["message"]), "bold"), (f"  [{printable(finding['code'])}]", "dim"))
    yield Padding(Text(printable(finding["next"]["by_itself"])), (0, 0, 0, 2))
    for action in finding["next"]["actions"]:
        how = action["command"] or action["request"] or ""
        # As it is, whatever the width of the terminal: it is there to be copied.
        text = Text.assemble("- ", printable(action["text"]), ": " if how else "", (printable(how), "cyan"))
        yield Padding(text, (0, 0, 0, 2))
