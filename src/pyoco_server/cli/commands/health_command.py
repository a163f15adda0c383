"""`pyoco-client health`."""

import typer
from rich.console import RenderableType

from pyoco_server.cli.entry import FAILURE
from pyoco_server.cli.options.client_options import OutputOption, client_command
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, printable, show
from pyoco_server.cli.views.list_views import format_size
from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.http_client.response_types import Health


@client_command("pyoco-client health")
def health(client: PyocoHttpClient, *, output: OutputOption = None) -> None:
    found = client.health()
    show(found, output, _health_view)
    if not (found["nats"]["ready"] and found["index"]["ready"]):
        raise typer.Exit(FAILURE)


def _health_view(found: Health) -> RenderableType:
    nats, storage, index = found["nats"], found["storage"], found["index"]
    connection = (
        localized("ready")
        if nats["ready"]
        else localized("not ready: {why}", why=nats.get("detail") or nats["status"])
    )
    building = localized("being built: at most {count} writes to read", count=index.get("behind", 0))
    rows = [
        ("gateway", f"{found['status']} {found.get('version', '')}".strip()),
        ("NATS", connection),
        *(
            (
                "low space",
                localized(
                    "{of}: {free} of {limit} left",
                    of=left["of"],
                    free=format_size(left["free_bytes"]),
                    limit=format_size(left["limit_bytes"]),
                ),
            )
            for left in storage.get("low", [])
        ),
        ("index", localized("ready") if index["ready"] else building),
    ]
    return pairs((name, printable(value)) for name, value in rows)
