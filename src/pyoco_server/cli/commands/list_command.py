"""`pyoco-client list` and `list-vnext`: the runs that match."""

from collections.abc import Sequence
from enum import StrEnum
from itertools import islice
from typing import Annotated, Final

import typer

from pyoco_server.cli.entry import examples
from pyoco_server.cli.options.client_options import ApiKey, OutputForm, Server, open_client
from pyoco_server.cli.options.common_options import sendable_text
from pyoco_server.cli.options.filter_options import run_filter, takes
from pyoco_server.cli.views.console import say
from pyoco_server.cli.views.list_views import runs_view
from pyoco_server.cli.views.question_views import waits_for_people
from pyoco_server.cli.views.run_views import Output, chosen, show
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import RunFilter, RunListing
from pyoco_server.http_client.response_types import RunItem

LIST_EPILOG: Final = examples(
    "pyoco-client list",
    "pyoco-client list --status FAILED --flow nightly --updated-after 24h",
    "pyoco-client list --search timeout --sort duration --all --output json",
)
LIST_VNEXT_EPILOG: Final = examples(
    "pyoco-client list-vnext --status RUNNING --status PENDING --total",
    "pyoco-client list-vnext --limit 200 --cursor $CURSOR",
)
_PAGE: Final = 200


class Sort(StrEnum):
    UPDATED_AT = "updated_at"
    SUBMITTED_AT = "submitted_at"
    START_TIME = "start_time"
    END_TIME = "end_time"
    DURATION = "duration"
    FLOW_NAME = "flow_name"
    STATUS = "status"


class Order(StrEnum):
    DESC = "desc"
    ASC = "asc"


SortBy = Annotated[
    Sort | None,
    typer.Option(
        help="updated_at (the default), submitted_at, start_time, end_time, duration, flow_name or status.",
        metavar="FIELD",
        show_default=False,
    ),
]
InOrder = Annotated[
    Order | None,
    typer.Option(
        help="desc (the default): the largest or newest first; asc.", metavar="ORDER", show_default=False
    ),
]
Full = Annotated[bool, typer.Option("--full", help="Whole snapshots with their task records.", metavar="")]
Limit = Annotated[
    int | None, typer.Option(help="How many at most (50; no more than 200).", metavar="N", min=1, max=_PAGE)
]


@takes(run_filter)
def list_runs(
    ctx: typer.Context,
    *,
    wanted: RunFilter,
    sort: SortBy = None,
    order: InOrder = None,
    full: Full = False,
    limit: Annotated[int | None, typer.Option(help="How many at most (50).", metavar="N", min=1)] = None,
    all_pages: Annotated[bool, typer.Option("--all", help="All of them.", metavar="")] = False,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """List the runs that match, the last changed first; with --all, the last submitted first."""
    if all_pages and limit is not None:
        raise InvalidCliArgument("--all has no limit; leave --limit or --all out")
    listing = _listing(wanted, sort, order, full)
    with open_client(ctx, server, api_key) as client:
        if limit is None and not all_pages:
            runs = client.list_runs(**listing)
        else:
            if limit is not None and sort is None:
                # So many of those that changed last.
                listing["sort"] = Sort.UPDATED_AT
            runs = list(islice(client.iter_runs(min(limit or _PAGE, _PAGE), **listing), limit))
        show(runs, output, runs_view)
    _tell_of_questions(runs, output)


@takes(run_filter)
def list_vnext(
    ctx: typer.Context,
    *,
    wanted: RunFilter,
    sort: SortBy = None,
    order: InOrder = None,
    full: Full = False,
    limit: Limit = None,
    cursor: Annotated[
        str | None,
        typer.Option(
            help="The next_cursor of the page before; give the same filters with it.",
            metavar="CURSOR",
            parser=sendable_text,
        ),
    ] = None,
    total: Annotated[bool, typer.Option("--total", help="Also count all that match.", metavar="")] = False,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """List a page of the runs that match, with the cursor of the next page."""
    with open_client(ctx, server, api_key) as client:
        page = client.list_runs_vnext(limit, cursor, total=total, **_listing(wanted, sort, order, full))
    show(page, output, lambda page: runs_view(page["items"]))
    _tell_of_questions(page["items"], output)
    if chosen(output) is Output.TABLE:
        if "total" in page:
            say(
                f"{page['total']} runs match."
                if page.get("total_exact", True)
                else f"At least {page['total']} runs match."
            )
        if page["next_cursor"]:
            say(f"More with --cursor {page['next_cursor']}")


def _tell_of_questions(runs: Sequence[RunItem], output: Output | None) -> None:
    waiting = sum(map(waits_for_people, runs))
    if waiting and chosen(output) is Output.TABLE:
        say(f"{waiting} of them {'waits' if waiting == 1 else 'wait'} for an answer: pyoco-client waits")


def _listing(wanted: RunFilter, sort: Sort | None, order: Order | None, full: bool) -> RunListing:
    return RunListing(**wanted, sort=sort, order=order, include=["full"] if full else [])
