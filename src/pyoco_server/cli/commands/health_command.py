"""`pyoco-client health`."""

import typer
from rich.console import RenderableType

from pyoco_server.cli.entry import FAILURE
from pyoco_server.cli.options.client_options import OutputForm, client_command
from pyoco_server.cli.views.console import pairs, printable, show
from pyoco_server.cli.views.list_views import format_size
from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.http_client.response_types import Health


@client_command("pyoco-client health")
def health(client: PyocoHttpClient, *, output: OutputForm = None) -> None:
    found = client.health()
    show(found, output, _health_view)
    if not (found["nats"]["ready"] and found["index"]["ready"]):
        raise typer.Exit(FAILURE)


def _health_view(found: Health) -> RenderableType:
    nats, storage, index = found["nats"], found["storage"], found["index"]
    connection = "ready" if nats["ready"] else f"not ready: {nats.get('detail') or nats['status']}"
    building = f"being built: at most {index.get('behind', 0)} writes to read"
    rows = [
        ("gateway", f"{found['status']} {found.get('version', '')}".strip()),
        ("NATS", connection),
        *(
            (
                "low space",
                f"{left['of']}: {format_size(left['free_bytes'])} of {format_size(left['limit_bytes'])} left",
            )
            for left in storage.get("low", [])
        ),
        ("index", "ready" if index["ready"] else building),
    ]
    return pairs((name, printable(value)) for name, value in rows)
