"""`pyoco-client dlq`: dead letters."""

from typing import Annotated

from rich.console import RenderableType

from pyoco_server.cli.commands.runs.bulk_command import BulkOptions, run_bulk
from pyoco_server.cli.commands.runs.run_commands import From
from pyoco_server.cli.options.client_options import (
    AllPages,
    Limit,
    OutputOption,
    client_command,
    listed,
)
from pyoco_server.cli.options.filter_options import letter_filter
from pyoco_server.cli.options.shared_options import flag, option
from pyoco_server.cli.options.time_formats import local_time
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, print_note, printable, show
from pyoco_server.cli.views.copied_commands import with_server
from pyoco_server.cli.views.list_views import letters_view
from pyoco_server.cli.views.run_views import accepted_view
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import LetterFilter, PyocoHttpClient
from pyoco_server.http_client.response_types import Letter

SingleSeq = Annotated[int | None, option("Only this letter, instead of filters.", "N", min=1)]


@client_command(
    "pyoco-client dlq list",
    "pyoco-client dlq list --reason execution_error --flow nightly --since 24h",
    "pyoco-client dlq list --search timeout --all --output json",
    "pyoco-client dlq list --state open",
    filters=letter_filter,
)
def list_letters(
    client: PyocoHttpClient,
    *,
    filters: LetterFilter,
    limit: Limit = None,
    all_pages: AllPages = False,
    output: OutputOption = None,
) -> None:
    letters = listed(lambda size: client.iter_dlq(size, **filters), limit, all_pages)
    show(letters, output, letters_view)


@client_command("pyoco-client dlq get --seq 41")
def get(
    client: PyocoHttpClient,
    *,
    seq: Annotated[int, option("The letter's number, shown by `dlq list`.", "N", min=1)],
    output: OutputOption = None,
) -> None:
    show(client.get_dlq(seq), output, _letter_view)


@client_command(
    "pyoco-client dlq replay --seq 41",
    "pyoco-client dlq replay --flow nightly --since 24h --from failed --delete --yes",
    filters=letter_filter,
    bulk=BulkOptions,
)
def replay(
    client: PyocoHttpClient,
    *,
    filters: LetterFilter,
    seq: SingleSeq = None,
    start: From = None,
    delete_letter: Annotated[
        bool, flag("--delete", "Delete each letter once its new run is stored.")
    ] = False,
    bulk: BulkOptions,
) -> None:
    _require_seq_or_filter(filters, seq, bulk)
    if seq is not None:
        replayed = client.replay_dlq(
            seq, mode=start, delete=delete_letter, idempotency_key=bulk.idempotency_key
        )
        show(replayed, bulk.output, accepted_view)
        if delete_letter and not replayed["deleted"]:
            command = with_server(f"pyoco-client dlq delete --seq {seq}")
            print_note(localized("The letter was not deleted: {command}", command=command))
        return
    run_bulk(
        client,
        lambda **consent: client.bulk_replay_dlq(filters, start, delete=delete_letter, **consent),
        "Replay the matching dead letters ({count})?",
        bulk,
    )


@client_command(
    "pyoco-client dlq delete --seq 41",
    "pyoco-client dlq delete --until 30d --yes --wait",
    filters=letter_filter,
    bulk=BulkOptions,
)
def delete(
    client: PyocoHttpClient,
    *,
    filters: LetterFilter,
    seq: SingleSeq = None,
    bulk: BulkOptions,
) -> None:
    _require_seq_or_filter(filters, seq, bulk)
    if seq is not None:
        if bulk.idempotency_key is not None:
            raise InvalidCliArgument("--idempotency-key has no use with --seq; omit it")
        show(
            client.delete_dlq(seq),
            bulk.output,
            lambda it: pairs([("seq", str(it["seq"])), ("deleted", localized("yes"))]),
        )
        return
    run_bulk(
        client,
        lambda **consent: client.bulk_delete_dlq(filters, **consent),
        "Delete the matching dead letters ({count})?",
        bulk,
    )


def _require_seq_or_filter(filters: LetterFilter, seq: int | None, bulk: BulkOptions) -> None:
    """A mistake must not affect every letter."""
    is_filtered = any(filters.values())
    if seq is None and not is_filtered:
        raise InvalidCliArgument("give --seq, or at least one filter such as --reason or --flow")
    if seq is not None and (is_filtered or bulk.dry_run or bulk.wait):
        raise InvalidCliArgument("--seq names one letter; omit the filters, --dry-run and --wait")


def _letter_view(letter: Letter) -> RenderableType:
    rows = [
        ("seq", str(letter["seq"])),
        ("when", local_time(letter["timestamp"])),
        ("reason", letter["reason"]),
        ("error", letter["error"]),
        ("run_id", letter["run_id"]),
        ("flow_name", letter["flow_name"]),
        ("tag", letter["tag"]),
        ("worker", letter["worker_id"]),
        ("delivered", letter["num_delivered"] and localized("{count} times", count=letter["num_delivered"])),
        ("subject", letter["subject"]),
        ("replayable", localized("yes" if letter["replayable"] else "no")),
        ("rerun", (rerun := letter.get("rerun")) and f"{rerun['run_id']} {rerun['status']}"),
        ("closed", letter.get("closed") and localized("yes: the rerun has completed")),
    ]
    return pairs((name, printable(str(value))) for name, value in rows if value)
