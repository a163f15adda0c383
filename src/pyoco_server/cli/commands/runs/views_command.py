"""`pyoco-client views`: saved views of the list of runs."""

from enum import StrEnum
from typing import Annotated, Any, Final

import typer
from rich.console import RenderableType

from pyoco_server.cli.commands.runs.list_command import SortBy, SortOrder
from pyoco_server.cli.options.client_options import OutputOption, client_command
from pyoco_server.cli.options.filter_options import run_filter
from pyoco_server.cli.options.shared_options import comma_separated, option, text_option
from pyoco_server.cli.options.time_formats import ago
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, printable, show
from pyoco_server.cli.views.list_views import Columns, list_view
from pyoco_server.http_client import PyocoHttpClient, RunFilter
from pyoco_server.http_client.response_types import View
from pyoco_server.records.runs.saved_view_models import VIEW_NAME_EXPECTED, is_view_name


class Since(StrEnum):
    HOUR = "1h"
    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"


def _checked_name(text: str) -> str:
    if not is_view_name(text):
        raise typer.BadParameter(f"{text!r}: {VIEW_NAME_EXPECTED}")
    return text


Name = Annotated[str, typer.Argument(help="The name of the view.", metavar="NAME", parser=_checked_name)]
Revision = Annotated[
    int | None,
    option("Only if the view has this revision; 0: only if there is none.", "N", min=0, show_default=False),
]


@client_command("pyoco-client views list")
def list_views(client: PyocoHttpClient, *, output: OutputOption = None) -> None:
    show(client.list_views()["views"], output, _table)


@client_command('pyoco-client views show "Failed tonight"')
def show_view(client: PyocoHttpClient, name: Name, *, output: OutputOption = None) -> None:
    show(client.get_view(name), output, _details)


@client_command(
    'pyoco-client views save "Failed tonight" --status FAILED --flow nightly --since 24h',
    "pyoco-client views save slow --sort duration --columns status,flow_name,params,duration",
    'pyoco-client views save slow --rename "Slowest first"',
    filters=run_filter,
)
def save(
    client: PyocoHttpClient,
    name: Name,
    *,
    filters: RunFilter,
    since: Annotated[
        Since | None,
        option("Only runs changed within this time before the list is read: 1h, 24h, 7d or 30d.", "SPAN"),
    ] = None,
    sort: SortBy = None,
    order: SortOrder = None,
    columns: Annotated[
        str | None, text_option("The columns of the dashboard's table (default: the usual ones).", "A,B")
    ] = None,
    rename: Annotated[
        str | None,
        option("Another name; without other options the rest stays.", "NAME", parser=_checked_name),
    ] = None,
    revision: Revision = None,
    output: OutputOption = None,
) -> None:
    chosen: dict[str, Any] = {
        "filter": {field: value for field, value in {**filters, "since": since}.items() if value},
        "sort": sort,
        "order": order,
        "columns": comma_separated(columns) if columns is not None else None,
    }
    if rename is not None and not any(chosen.values()):
        before = client.get_view(name)
        chosen = {field: before[field] for field in ("filter", "sort", "order", "columns")}
        revision = before["revision"] if revision is None else revision
    saved = client.save_view(name, **chosen, new_name=rename, revision=revision)
    show(saved, output, _details)


@client_command('pyoco-client views delete "Failed tonight"')
def delete(
    client: PyocoHttpClient, name: Name, *, revision: Revision = None, output: OutputOption = None
) -> None:
    deleted = client.delete_view(name, revision=revision)
    show(deleted, output, lambda it: pairs([("view", printable(it["name"])), ("deleted", localized("yes"))]))


def _filter_text(view: View) -> str:
    words = []
    for name, value in view["filter"].items():
        if value:
            text = ",".join(value) if isinstance(value, list) else str(value)
            words.append(f"{name}={text}")
    return printable(" ".join(words) or localized("(all runs)"))


def _order_text(view: View) -> str:
    return printable(f"{view['sort']} {view['order']}")


_COLUMNS: Final[Columns] = {
    "View": lambda view: printable(view["name"]),
    "Filter": _filter_text,
    "Order": _order_text,
    "Changed": lambda view: ago(view["updated_at"]),
    "By": lambda view: printable(view["updated_by"] or ""),
}


def _table(views: list[View]) -> RenderableType:
    return list_view(views, _COLUMNS, only_wide={"Order", "By"})


def _details(view: View) -> RenderableType:
    return pairs(
        [
            ("view", printable(view["name"])),
            ("filter", _filter_text(view)),
            ("order", _order_text(view)),
            ("columns", printable(", ".join(view["columns"]) or localized("(the usual ones)"))),
            ("revision", str(view["revision"])),
            ("created by", printable(view["created_by"] or "")),
            ("changed", f"{ago(view['updated_at'])} {printable(view['updated_by'] or '')}".rstrip()),
        ]
    )
