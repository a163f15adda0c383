"""`pyoco-client bulk`, and bulk operations in general: count, confirm, start, wait."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final

from rich.console import Group, RenderableType
from rich.text import Text

from pyoco_server.cli.commands.runs.run_commands import From, KeepAnswers
from pyoco_server.cli.entry import CommandFailed
from pyoco_server.cli.forms.dialogue import TerminalDialogue, confirmed
from pyoco_server.cli.options.client_options import OutputOption, RepeatKey, client_command
from pyoco_server.cli.options.filter_options import run_filter
from pyoco_server.cli.options.shared_options import flag, text_option
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import OutputFormat, pairs, print_note, printable, show, stderr_console
from pyoco_server.cli.views.copied_commands import with_server
from pyoco_server.cli.views.list_views import operations_view
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import BulkConsent, PyocoHttpClient, RunFilter
from pyoco_server.http_client.response_types import BulkAnswer, BulkOperation

_POLL_SEC: Final = 0.3
_RUNNING: Final = "RUNNING"
_COMPLETED: Final = "COMPLETED"

WaitForAll = Annotated[bool, flag("--wait", "Wait until it is done; exit 0 only if nothing failed.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOptions:
    """How a bulk operation is confirmed, waited for and shown."""

    idempotency_key: RepeatKey = None
    dry_run: Annotated[bool, flag("--dry-run", "Only count the matches.")] = False
    yes: Annotated[bool, flag("--yes", "Skip the confirmation prompt.", "-y")] = False
    wait: WaitForAll = False
    output: OutputOption = None


BulkId = Annotated[str, text_option("The id printed by `bulk cancel` or `bulk rerun`.", "ID")]


@client_command(
    "pyoco-client bulk cancel --flow nightly --status RUNNING --dry-run",
    'pyoco-client bulk cancel --tag gpu --reason "maintenance" --yes --wait',
    filters=run_filter,
    bulk=BulkOptions,
)
def cancel(
    client: PyocoHttpClient,
    *,
    filters: RunFilter,
    reason: Annotated[str | None, text_option("Reason, recorded with the runs.", "TEXT")] = None,
    bulk: BulkOptions,
) -> None:
    _require_filter(filters)
    run_bulk(
        client,
        lambda **consent: client.bulk_cancel(filters, reason, **consent),
        "Cancel the matching runs ({count})?",
        bulk,
    )


@client_command(
    "pyoco-client bulk rerun --status FAILED --updated-after 24h --dry-run",
    "pyoco-client bulk rerun --status FAILED --flow nightly --from failed --yes",
    "pyoco-client bulk rerun --status FAILED --flow invoices --keep-answers",
    filters=run_filter,
    bulk=BulkOptions,
)
def rerun(
    client: PyocoHttpClient,
    *,
    filters: RunFilter,
    start: From = None,
    keep_answers: KeepAnswers = False,
    bulk: BulkOptions,
) -> None:
    _require_filter(filters)
    run_bulk(
        client,
        lambda **consent: client.bulk_rerun(filters, start, keep_answers=keep_answers, **consent),
        "Rerun the matching runs ({count})?",
        bulk,
    )


@client_command("pyoco-client bulk list")
def list_operations(client: PyocoHttpClient, *, output: OutputOption = None) -> None:
    show(client.list_bulk()["items"], output, operations_view)


@client_command("pyoco-client bulk get --bulk-id $BULK_ID --wait")
def get(
    client: PyocoHttpClient, *, bulk_id: BulkId, wait: WaitForAll = False, output: OutputOption = None
) -> None:
    _show_operation(client, client.get_bulk(bulk_id), wait=wait, output=output)


@client_command("pyoco-client bulk stop --bulk-id $BULK_ID")
def stop(client: PyocoHttpClient, *, bulk_id: BulkId, output: OutputOption = None) -> None:
    show(client.stop_bulk(bulk_id), output, _operation_view)


def _require_filter(filters: RunFilter) -> None:
    """A mistake must not affect every run."""
    if not any(filters.values()):
        raise InvalidCliArgument("give at least one filter, such as --status, --flow or --tag")


def run_bulk(
    client: PyocoHttpClient,
    request: Callable[..., BulkAnswer],
    question: str,
    bulk: BulkOptions,
) -> None:
    """Count the matches, ask for confirmation, start the operation."""
    if not (bulk.dry_run or bulk.yes or sys.stdin.isatty()):
        raise InvalidCliArgument(
            "cannot ask for confirmation without a terminal; add --yes, or --dry-run to only count"
        )
    counted = request(**BulkConsent(dry_run=True))
    # With a key this may be a repetition, whose matches of the first time no longer match.
    if bulk.dry_run or not (counted["matched"] or bulk.idempotency_key):
        show(counted, bulk.output, _counted_view)
        return
    asked = localized(question).format(count=counted["matched"])
    if not bulk.yes and not confirmed(TerminalDialogue(), asked, default=False):
        raise CommandFailed(localized("Nothing was done."))
    started = request(idempotency_key=bulk.idempotency_key, **BulkConsent(token=counted["token"] or ""))
    operation = started["operation"]
    assert operation is not None
    _show_operation(client, operation, wait=bulk.wait, output=bulk.output)


def _show_operation(
    client: PyocoHttpClient, operation: BulkOperation, *, wait: bool, output: OutputFormat | None
) -> None:
    if wait:
        operation = _wait_for_operation(client, operation)
    show(operation, output, _operation_view)
    if wait and (operation["state"] != _COMPLETED or operation["failed"]):
        raise CommandFailed(
            localized(
                "{failed} of {matched} failed; the operation is {state}",
                failed=operation["failed"],
                matched=operation["matched"],
                state=operation["state"],
            )
        )


def _wait_for_operation(client: PyocoHttpClient, operation: BulkOperation) -> BulkOperation:
    bulk_id = operation["bulk_id"]
    try:
        with stderr_console().status(localized("Waiting ...")) as status:
            while operation["state"] == _RUNNING:
                processed = operation["done"] + operation["skipped"] + operation["failed"]
                status.update(f"{printable(operation['action'])}: {processed} / {operation['matched']}")
                time.sleep(_POLL_SEC)
                operation = client.get_bulk(bulk_id)
    except KeyboardInterrupt:
        look = with_server(f"pyoco-client bulk get --bulk-id {bulk_id}")
        print_note(localized("Stopped waiting; the operation continues: {command}", command=look))
        raise
    return operation


def _operation_view(operation: BulkOperation) -> RenderableType:
    parts: list[RenderableType] = [operations_view([operation])]
    for error in operation["errors"]:
        ids = f"{error['err_id']} " if error["err_id"] else ""
        parts.append(Text(printable(f"{error['item']}: {ids}{error['message']}"), style="red"))
    return Group(*parts)


def _counted_view(counted: BulkAnswer) -> RenderableType:
    sample = "\n".join(counted["sample"]) + ("\n…" if counted["matched"] > len(counted["sample"]) else "")
    rows = [("action", counted["action"]), ("matched", str(counted["matched"]))]
    return pairs([*rows, ("examples", printable(sample))] if counted["sample"] else rows)
