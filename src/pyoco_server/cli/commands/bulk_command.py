"""`pyoco-client bulk`: cancel or repeat every run that matches, and see how far that has come."""

from enum import StrEnum
from typing import Annotated, Final

import typer

from pyoco_server.cli.commands.bulk_progress import (
    DryRun,
    WaitForAll,
    Yes,
    carry_out,
    check_outcome,
    operation_view,
    wait_for_operation,
)
from pyoco_server.cli.entry import examples, new_app
from pyoco_server.cli.options.client_options import ApiKey, OutputForm, RepeatKey, Server, open_client
from pyoco_server.cli.options.common_options import sendable_text
from pyoco_server.cli.options.filter_options import run_filter, takes
from pyoco_server.cli.views.list_views import operations_view
from pyoco_server.cli.views.run_views import show
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import RunFilter

EPILOG: Final = examples(
    "pyoco-client bulk cancel --flow nightly --status RUNNING --dry-run",
    "pyoco-client bulk rerun --status FAILED --updated-after 24h --from failed --yes",
)

app = new_app(
    no_args_is_help=True,
    help="Cancel or repeat every run that matches, and see how far that has come.",
    epilog=EPILOG,
)

BulkId = Annotated[
    str,
    typer.Option(help="The id that `bulk cancel` or `bulk rerun` gave.", metavar="ID", parser=sendable_text),
]


class Beginning(StrEnum):
    START = "start"
    FAILED = "failed"


From = Annotated[
    Beginning | None,
    typer.Option(
        "--from",
        help="start (the default): execute everything; failed: go on from what failed.",
        metavar="WHERE",
        show_default=False,
    ),
]


@app.command(
    epilog=examples(
        "pyoco-client bulk cancel --flow nightly --status RUNNING --dry-run",
        'pyoco-client bulk cancel --tag gpu --reason "maintenance" --yes --wait',
    )
)
@takes(run_filter)
def cancel(
    ctx: typer.Context,
    *,
    wanted: RunFilter,
    reason: Annotated[
        str | None,
        typer.Option(help="Why, for whoever looks at the runs.", metavar="TEXT", parser=sendable_text),
    ] = None,
    idempotency_key: RepeatKey = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    wait: WaitForAll = False,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Cancel every run that matches; those that have ended stay as they are."""
    _require_some(wanted)
    with open_client(ctx, server, api_key) as client:
        carry_out(
            client,
            lambda key, consent: client.bulk_cancel(wanted, reason, idempotency_key=key, **consent),
            "cancel the runs that match",
            idempotency_key=idempotency_key,
            dry_run=dry_run,
            yes=yes,
            wait=wait,
            output=output,
        )


@app.command(
    epilog=examples(
        "pyoco-client bulk rerun --status FAILED --updated-after 24h --dry-run",
        "pyoco-client bulk rerun --status FAILED --flow nightly --from failed --yes",
    )
)
@takes(run_filter)
def rerun(
    ctx: typer.Context,
    *,
    wanted: RunFilter,
    beginning: From = None,
    idempotency_key: RepeatKey = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    wait: WaitForAll = False,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Repeat every run that matches and has ended, as new runs."""
    _require_some(wanted)
    with open_client(ctx, server, api_key) as client:
        carry_out(
            client,
            lambda key, consent: client.bulk_rerun(wanted, beginning, idempotency_key=key, **consent),
            "repeat the runs that match",
            idempotency_key=idempotency_key,
            dry_run=dry_run,
            yes=yes,
            wait=wait,
            output=output,
        )


@app.command("list", epilog=examples("pyoco-client bulk list"))
def list_operations(
    ctx: typer.Context, *, output: OutputForm = None, server: Server = None, api_key: ApiKey = None
) -> None:
    """List the newest bulk operations."""
    with open_client(ctx, server, api_key) as client:
        show(client.list_bulk()["items"], output, operations_view)


@app.command(epilog=examples("pyoco-client bulk get --bulk-id $BULK_ID --wait"))
def get(
    ctx: typer.Context,
    *,
    bulk_id: BulkId,
    wait: WaitForAll = False,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Show how far a bulk operation has come."""
    with open_client(ctx, server, api_key) as client:
        operation = client.get_bulk(bulk_id)
        if wait:
            operation = wait_for_operation(client, operation)
        show(operation, output, operation_view)
        if wait:
            check_outcome(operation)


@app.command(epilog=examples("pyoco-client bulk stop --bulk-id $BULK_ID"))
def stop(
    ctx: typer.Context,
    *,
    bulk_id: BulkId,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Stop a bulk operation; what is done stays done."""
    with open_client(ctx, server, api_key) as client:
        show(client.stop_bulk(bulk_id), output, operation_view)


def _require_some(wanted: RunFilter) -> None:
    """A slip of the finger must not reach every run there is."""
    if not any(wanted.values()):
        raise InvalidCliArgument("which runs? Give at least one filter, such as --status, --flow or --tag")
