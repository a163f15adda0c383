"""`pyoco-client list` and `list-vnext`."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, cast

from pyoco_server.cli.options.client_options import (
    PAGE_SIZE,
    AllPages,
    Limit,
    OutputOption,
    check_limit_or_all,
    client_command,
    listed,
)
from pyoco_server.cli.options.filter_options import run_filter
from pyoco_server.cli.options.shared_options import flag, option, text_option
from pyoco_server.cli.options.time_formats import parse_time
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import OutputFormat, effective_format, print_note, show
from pyoco_server.cli.views.copied_commands import with_server
from pyoco_server.cli.views.list_views import runs_view
from pyoco_server.cli.views.run_views import asks_somebody
from pyoco_server.http_client import PyocoHttpClient, RunFilter, RunListing
from pyoco_server.http_client.response_types import RunItem, View
from pyoco_server.runs.index.pagination import SortField


class Order(StrEnum):
    DESC = "desc"
    ASC = "asc"


SortBy = Annotated[
    SortField | None,
    option(
        "updated_at (default), submitted_at, start_time, end_time, duration, flow_name or status.",
        "FIELD",
        show_default=False,
    ),
]
SortOrder = Annotated[
    Order | None,
    option("desc (default): largest or newest first; asc: the reverse.", "ORDER", show_default=False),
]
ViewName = Annotated[
    str | None,
    text_option("The filters and the order of this saved view; other options replace its own.", "NAME"),
]
Full = Annotated[bool, flag("--full", "Return full snapshots, including task records.")]


@client_command(
    "pyoco-client list",
    "pyoco-client list --status FAILED --flow nightly --updated-after 24h",
    "pyoco-client list --search timeout --sort duration --all --output json",
    'pyoco-client list --view "Failed tonight"',
    filters=run_filter,
)
def list_runs(
    client: PyocoHttpClient,
    *,
    filters: RunFilter,
    view: ViewName = None,
    sort: SortBy = None,
    order: SortOrder = None,
    full: Full = False,
    limit: Limit = None,
    all_pages: AllPages = False,
    output: OutputOption = None,
) -> None:
    check_limit_or_all(limit, all_pages)
    listing = _listing(filters, sort, order, full)
    if view is not None:
        own = {name: value for name, value in listing.items() if value}
        listing = cast(RunListing, {**_listing_of(client.get_view(view)), **own})
    if limit is None and not all_pages:
        runs = client.list_runs(**listing)
    else:
        if limit is not None and listing.get("sort") is None:
            # The pages are in the order of submission unless a sort is given.
            listing["sort"] = SortField.UPDATED_AT
        runs = listed(lambda size: client.iter_runs(size, **listing), limit, all_pages)
    show(runs, output, runs_view)
    _note_questions(runs, output)


@client_command(
    "pyoco-client list-vnext --status RUNNING --status PENDING --total",
    "pyoco-client list-vnext --limit 200 --cursor $CURSOR",
    filters=run_filter,
)
def list_vnext(
    client: PyocoHttpClient,
    *,
    filters: RunFilter,
    sort: SortBy = None,
    order: SortOrder = None,
    full: Full = False,
    limit: Annotated[
        int | None, option("Maximum number of results (default: 50; at most 200).", "N", min=1, max=PAGE_SIZE)
    ] = None,
    cursor: Annotated[
        str | None, text_option("The next_cursor of the previous page; repeat the same filters.", "CURSOR")
    ] = None,
    total: Annotated[bool, flag("--total", "Also count all matching runs.")] = False,
    output: OutputOption = None,
) -> None:
    page = client.list_runs_vnext(limit, cursor, total=total, **_listing(filters, sort, order, full))
    show(page, output, lambda page: runs_view(page["items"]))
    _note_questions(page["items"], output)
    if effective_format(output) is OutputFormat.TABLE:
        if "total" in page:
            is_exact = page.get("total_exact", True)
            text = "{count} runs match." if is_exact else "At least {count} runs match."
            print_note(localized(text, count=page["total"]))
        if page["next_cursor"]:
            print_note(localized("More with --cursor {cursor}", cursor=page["next_cursor"]))


def _note_questions(runs: Sequence[RunItem], output: OutputFormat | None) -> None:
    waiting = sum(map(asks_somebody, runs))
    if waiting and effective_format(output) is OutputFormat.TABLE:
        one, several = "{count} of them waits for an answer", "{count} of them wait for an answer"
        text = localized(one if waiting == 1 else several, count=waiting)
        print_note(f"{text}: {with_server('pyoco-client waits')}")


def _listing_of(view: View) -> RunListing:
    """What a saved view lists now."""
    chosen: dict[str, Any] = dict(view["filter"])
    since = chosen.pop("since")
    if since is not None:
        chosen["updated_after"] = parse_time(since)
    return cast(RunListing, {**chosen, "sort": view["sort"], "order": view["order"]})


def _listing(filters: RunFilter, sort: SortField | None, order: Order | None, full: bool) -> RunListing:
    return RunListing(**filters, sort=sort, order=order, include=["full"] if full else [])
