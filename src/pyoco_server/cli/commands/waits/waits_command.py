"""`pyoco-client waits`."""

import json
from itertools import islice
from typing import Annotated

from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from pyoco_server.cli.options.client_options import (
    DEFAULT_LIMIT,
    PAGE_SIZE,
    AllPages,
    Limit,
    OutputOption,
    WaitId,
    check_limit_or_all,
    client_command,
)
from pyoco_server.cli.options.filter_options import wait_filter
from pyoco_server.cli.options.shared_options import flag
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import OutputFormat, effective_format, print_note, show, stdout_console
from pyoco_server.cli.views.copied_commands import with_server
from pyoco_server.cli.views.wait_views import wait_view, waits_view
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import PyocoHttpClient, WaitFilter
from pyoco_server.http_client.response_types import WaitItem
from pyoco_server.http_client.waits.wait_calls import InboxEvent


@client_command(
    "pyoco-client waits",
    "pyoco-client waits --flow invoice --assignee finance --output json",
    "pyoco-client waits --state answered --state expired --all",
    "pyoco-client waits --watch",
    filters=wait_filter,
)
def waits(
    client: PyocoHttpClient,
    *,
    filters: WaitFilter,
    wait_id: WaitId = None,
    limit: Limit = None,
    all_pages: AllPages = False,
    watch: Annotated[bool, flag("--watch", "Watch all open waits until Ctrl-C.")] = False,
    output: OutputOption = None,
) -> None:
    check_limit_or_all(limit, all_pages)
    is_filtered = any(filters.values()) or all_pages or limit is not None
    if (watch or wait_id) and (is_filtered or (watch and wait_id)):
        raise InvalidCliArgument("use --watch, --wait-id or filters, not several of them")
    if watch:
        _watch(client, effective_format(output))
    elif wait_id is not None:
        show(client.get_wait(wait_id), output, wait_view)
    else:
        _list(client, filters, None if all_pages else limit or DEFAULT_LIMIT, output)


def _list(
    client: PyocoHttpClient, filters: WaitFilter, limit: int | None, output: OutputFormat | None
) -> None:
    pages = client.iter_waits(min(limit or PAGE_SIZE, PAGE_SIZE), **filters)
    items = list(islice(pages, limit))
    show(items, output, waits_view)
    if effective_format(output) is OutputFormat.TABLE:
        if limit is not None and next(pages, None) is not None:
            print_note(localized("More waits exist: use --all or a larger --limit."))
        if any(wait["state"] == "open" and wait["kind"] == "human" for wait in items):
            print_note(localized("Answer with: ") + with_server("pyoco-client resume RUN_ID"))


def _watch(client: PyocoHttpClient, output: OutputFormat) -> None:
    inbox = Inbox()
    if output is OutputFormat.JSON:
        file = stdout_console().file
        for event in client.watch_waits():
            file.write(json.dumps(event, ensure_ascii=False) + "\n")
            file.flush()
        return
    # Rendered twice a second, so that the remaining time is current.
    with Live(get_renderable=inbox.render, console=stdout_console(), refresh_per_second=2):
        for event in client.watch_waits():
            inbox.apply(event)


class Inbox:
    """The open waits, kept current by events."""

    def __init__(self) -> None:
        self._open: dict[str, WaitItem] = {}
        self._connected = False

    def render(self) -> RenderableType:
        if not self._connected:
            return Text(localized("Connecting ..."), style="dim")
        return waits_view(list(self._open.values()))

    def apply(self, event: InboxEvent) -> None:
        self._connected = True
        if event["event"] == "open":
            self._open = {wait["wait_id"]: wait for wait in event["waits"]}
        elif event["event"] == "opened":
            self._open[event["wait"]["wait_id"]] = event["wait"]
        else:
            self._open.pop(event["wait"]["wait_id"], None)
