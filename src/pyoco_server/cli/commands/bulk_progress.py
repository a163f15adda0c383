"""Doing something to many: counted first, agreed to, then done by the gateway, and followed if wanted."""

import sys
import time
from collections.abc import Callable
from typing import Annotated, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from pyoco_server.cli.exit_codes import CommandFailed
from pyoco_server.cli.views.console import notes, printable, say
from pyoco_server.cli.views.list_views import operations_view
from pyoco_server.cli.views.run_views import Output, pairs, show
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import BulkConsent, PyocoHttpClient
from pyoco_server.http_client.response_types import BulkAnswer, BulkOperation

_POLL_SEC: Final = 0.3
_RUNNING: Final = "RUNNING"
_COMPLETED: Final = "COMPLETED"

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count what matches.", metavar="")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether to do it.", metavar="")]
WaitForAll = Annotated[
    bool, typer.Option("--wait", help="Wait until it is done; exit 0 only if nothing failed.", metavar="")
]

# With an idempotency key, if there is one, and a consent.
Ask = Callable[[str | None, BulkConsent], BulkAnswer]


def carry_out(
    client: PyocoHttpClient,
    ask: Ask,
    what: str,
    *,
    idempotency_key: str | None,
    dry_run: bool,
    yes: bool,
    wait: bool,
    output: Output | None,
) -> None:
    """Count, ask the person, begin; `what` is what would be done, as in "cancel the runs that match"."""
    if not (dry_run or yes or sys.stdin.isatty()):
        raise InvalidCliArgument(
            f"nobody can be asked here whether to {what}; add --yes, or --dry-run to count"
        )
    counted = ask(None, BulkConsent(dry_run=True))
    # With a key it may be a repetition: what matched the first time may not match any more.
    if dry_run or not (counted["matched"] or idempotency_key):
        show(counted, output, _counted_view)
        return
    if not yes and not typer.confirm(f"{what.capitalize()} ({counted['matched']})?", err=True):
        raise CommandFailed("Nothing was done.")
    begun = ask(idempotency_key, BulkConsent(token=counted["token"] or ""))["operation"]
    assert begun is not None
    operation = wait_for_operation(client, begun) if wait else begun
    show(operation, output, operation_view)
    if wait:
        check_outcome(operation)


def wait_for_operation(client: PyocoHttpClient, operation: BulkOperation) -> BulkOperation:
    bulk_id = operation["bulk_id"]
    try:
        with notes().status("Working ...") as status:
            while operation["state"] == _RUNNING:
                over = operation["done"] + operation["skipped"] + operation["failed"]
                status.update(f"{printable(operation['action'])}: {over} of {operation['matched']}")
                time.sleep(_POLL_SEC)
                operation = client.get_bulk(bulk_id)
    except KeyboardInterrupt:
        say(f"No longer waiting; the gateway goes on: pyoco-client bulk get --bulk-id {bulk_id}")
        raise
    return operation


def check_outcome(operation: BulkOperation) -> None:
    if operation["state"] != _COMPLETED or operation["failed"]:
        raise CommandFailed(
            f"{operation['failed']} of {operation['matched']} failed; it is {operation['state']}"
        )


def operation_view(operation: BulkOperation) -> RenderableType:
    parts: list[RenderableType] = [operations_view([operation])]
    for error in operation["errors"]:
        ids = f"{error['err_id']} " if error["err_id"] else ""
        parts.append(Text(printable(f"{error['item']}: {ids}{error['message']}"), style="red"))
    return Group(*parts)


def _counted_view(answer: BulkAnswer) -> RenderableType:
    sample = "\n".join(answer["sample"]) + ("\n…" if answer["matched"] > len(answer["sample"]) else "")
    rows = [("action", answer["action"]), ("matched", str(answer["matched"]))]
    return pairs([*rows, ("such as", printable(sample))] if answer["sample"] else rows)
