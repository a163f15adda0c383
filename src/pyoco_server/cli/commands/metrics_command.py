"""`pyoco-client metrics`: the gateway's metrics as they are."""

from typing import Annotated, Final

import typer

from pyoco_server.cli.entry import examples
from pyoco_server.cli.options.client_options import ApiKey, Server, open_client
from pyoco_server.cli.views.console import results

EPILOG: Final = examples("pyoco-client metrics", "pyoco-client metrics --name pyoco_queue")


def metrics(
    ctx: typer.Context,
    *,
    name: Annotated[
        str | None,
        typer.Option(help="Only metrics whose names begin like this.", metavar="PREFIX"),
    ] = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Show the gateway's metrics, in the form that Prometheus reads."""
    with open_client(ctx, server, api_key) as client:
        text = client.metrics()
    lines = (
        line for line in text.splitlines(keepends=True) if name is None or _name_of(line).startswith(name)
    )
    results().file.write("".join(lines))


def _name_of(line: str) -> str:
    """The metric that a line is about: `name{...} 1`, `# HELP name ...` or `# TYPE name ...`."""
    words = line.split(maxsplit=3)
    return words[2] if line.startswith("# ") and len(words) > 2 else line
