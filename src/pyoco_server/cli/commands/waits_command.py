"""`pyoco-client waits`: what waits for an answer of a person, now or as it changes."""

import json
from itertools import islice
from typing import Annotated, Final

import typer
from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from pyoco_server.cli.entry import examples
from pyoco_server.cli.options.client_options import ApiKey, OutputForm, Server, WaitId, open_client
from pyoco_server.cli.options.filter_options import takes, wait_filter
from pyoco_server.cli.views.console import results, say
from pyoco_server.cli.views.run_views import Output, chosen, show
from pyoco_server.cli.views.wait_views import wait_view, waits_view
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import PyocoHttpClient, WaitFilter
from pyoco_server.http_client.response_types import WaitItem
from pyoco_server.http_client.wait_calls import InboxEvent

EPILOG: Final = examples(
    "pyoco-client waits",
    "pyoco-client waits --flow invoice --assignee finance --output json",
    "pyoco-client waits --state answered --state expired --all",
    "pyoco-client waits --watch",
)
_USUAL_LIMIT: Final = 50
_PAGE: Final = 200


@takes(wait_filter)
def waits(
    ctx: typer.Context,
    *,
    wanted: WaitFilter,
    wait_id: WaitId = None,
    limit: Annotated[int | None, typer.Option(help="How many at most (50).", metavar="N", min=1)] = None,
    all_pages: Annotated[bool, typer.Option("--all", help="All of them.", metavar="")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show all that is open, as it changes, until Ctrl-C.", metavar="")
    ] = False,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """List what waits for an answer; or what became of it; or show one wait with its history."""
    if all_pages and limit is not None:
        raise InvalidCliArgument("--all has no limit; leave --limit or --all out")
    chosen_some = any(wanted.values()) or all_pages or limit is not None
    if (watch or wait_id) and (chosen_some or (watch and wait_id)):
        raise InvalidCliArgument("--watch shows all that is open, --wait-id one wait; leave the rest out")
    with open_client(ctx, server, api_key) as client:
        if watch:
            _watch(client, chosen(output))
        elif wait_id is not None:
            show(client.get_wait(wait_id), output, wait_view)
        else:
            _list(client, wanted, None if all_pages else limit or _USUAL_LIMIT, output)


def _list(client: PyocoHttpClient, wanted: WaitFilter, most: int | None, output: Output | None) -> None:
    pages = client.iter_waits(min(most or _PAGE, _PAGE), **wanted)
    items = list(islice(pages, most))
    show(items, output, waits_view)
    if chosen(output) is Output.TABLE:
        if most is not None and next(pages, None) is not None:
            say("There are more: --all, or a larger --limit.")
        if any(wait["state"] == "open" for wait in items):
            say("Answer with: pyoco-client resume RUN_ID")


def _watch(client: PyocoHttpClient, form: Output) -> None:
    inbox = Inbox()
    if form is Output.JSON:
        file = results().file
        for event in client.watch_waits():
            file.write(json.dumps(event, ensure_ascii=False) + "\n")
            file.flush()
        return
    # Drawn anew twice a second, so that the time that is left runs down.
    with Live(get_renderable=inbox.drawing, console=results(), refresh_per_second=2):
        for event in client.watch_waits():
            inbox.hear(event)


class Inbox:
    """What is open, by what was heard of it."""

    def __init__(self) -> None:
        self._open: dict[str, WaitItem] = {}
        self._begun = False

    def drawing(self) -> RenderableType:
        return waits_view(list(self._open.values())) if self._begun else Text("Connecting ...", style="dim")

    def hear(self, event: InboxEvent) -> None:
        self._begun = True
        if event["event"] == "open":
            self._open = {wait["wait_id"]: wait for wait in event["waits"]}
        elif event["event"] == "opened":
            self._open[event["wait"]["wait_id"]] = event["wait"]
        else:
            self._open.pop(event["wait"]["wait_id"], None)
