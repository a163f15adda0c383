"""`pyoco-client dlq`: what ended badly, and what to do about it."""

from itertools import islice
from typing import Annotated, Final

import typer
from rich.console import RenderableType

from pyoco_server.cli.commands.bulk_command import From
from pyoco_server.cli.commands.bulk_progress import DryRun, WaitForAll, Yes, carry_out
from pyoco_server.cli.entry import examples, new_app
from pyoco_server.cli.options.client_options import ApiKey, OutputForm, RepeatKey, Server, open_client
from pyoco_server.cli.options.filter_options import letter_filter, takes
from pyoco_server.cli.options.moments import local_time
from pyoco_server.cli.views.console import printable, say
from pyoco_server.cli.views.list_views import letters_view
from pyoco_server.cli.views.run_views import accepted_view, pairs, show
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import LetterFilter
from pyoco_server.http_client.response_types import Letter

EPILOG: Final = examples(
    "pyoco-client dlq list --reason execution_error --since 24h",
    "pyoco-client dlq replay --seq 41",
)
_USUAL_LIMIT: Final = 50
_PAGE: Final = 200

app = new_app(
    no_args_is_help=True,
    help="Show the dead letters (what ended badly), replay their runs, delete them.",
    epilog=EPILOG,
)

Seq = Annotated[int, typer.Option(help="The letter's number, as `dlq list` shows it.", metavar="N", min=1)]
OneSeq = Annotated[int | None, typer.Option(help="This letter only, instead of filters.", metavar="N", min=1)]


@app.command(
    "list",
    epilog=examples(
        "pyoco-client dlq list",
        "pyoco-client dlq list --reason execution_error --flow nightly --since 24h",
        "pyoco-client dlq list --search timeout --all --output json",
    ),
)
@takes(letter_filter)
def list_letters(
    ctx: typer.Context,
    *,
    wanted: LetterFilter,
    limit: Annotated[int | None, typer.Option(help="How many at most (50).", metavar="N", min=1)] = None,
    all_pages: Annotated[bool, typer.Option("--all", help="All of them.", metavar="")] = False,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """List the dead letters that match, the newest first."""
    if all_pages and limit is not None:
        raise InvalidCliArgument("--all has no limit; leave --limit or --all out")
    most = None if all_pages else limit or _USUAL_LIMIT
    with open_client(ctx, server, api_key) as client:
        letters = islice(client.iter_dlq(min(most or _PAGE, _PAGE), **wanted), most)
        show(list(letters), output, letters_view)


@app.command(epilog=examples("pyoco-client dlq get --seq 41"))
def get(
    ctx: typer.Context,
    *,
    seq: Seq,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Show one dead letter."""
    with open_client(ctx, server, api_key) as client:
        show(client.get_dlq(seq), output, _letter_view)


@app.command(
    epilog=examples(
        "pyoco-client dlq replay --seq 41",
        "pyoco-client dlq replay --flow nightly --since 24h --from failed --delete --yes",
    )
)
@takes(letter_filter)
def replay(
    ctx: typer.Context,
    *,
    wanted: LetterFilter,
    seq: OneSeq = None,
    beginning: From = None,
    delete_letter: Annotated[
        bool, typer.Option("--delete", help="Remove each letter once its new run is stored.", metavar="")
    ] = False,
    idempotency_key: RepeatKey = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    wait: WaitForAll = False,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Repeat the runs of dead letters, as new runs: of one letter, or of all that match."""
    _require_one_way(wanted, seq, dry_run=dry_run, wait=wait)
    with open_client(ctx, server, api_key) as client:
        if seq is not None:
            replayed = client.replay_dlq(
                seq, mode=beginning, delete=delete_letter, idempotency_key=idempotency_key
            )
            show(replayed, output, accepted_view)
            if delete_letter and not replayed["deleted"]:
                say(f"The letter could not be removed: pyoco-client dlq delete --seq {seq}")
            return
        carry_out(
            client,
            lambda key, consent: client.bulk_replay_dlq(
                wanted, beginning, delete=delete_letter, idempotency_key=key, **consent
            ),
            "replay the dead letters that match",
            idempotency_key=idempotency_key,
            dry_run=dry_run,
            yes=yes,
            wait=wait,
            output=output,
        )


@app.command(
    epilog=examples("pyoco-client dlq delete --seq 41", "pyoco-client dlq delete --until 30d --yes --wait")
)
@takes(letter_filter)
def delete(
    ctx: typer.Context,
    *,
    wanted: LetterFilter,
    seq: OneSeq = None,
    idempotency_key: RepeatKey = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    wait: WaitForAll = False,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Remove dead letters: one, or all that match. Their runs stay."""
    _require_one_way(wanted, seq, dry_run=dry_run, wait=wait)
    if seq is not None and idempotency_key is not None:
        raise InvalidCliArgument("a letter is removed once in any case; leave --idempotency-key out")
    with open_client(ctx, server, api_key) as client:
        if seq is not None:
            show(
                client.delete_dlq(seq),
                output,
                lambda gone: pairs([("seq", str(gone["seq"])), ("deleted", "yes")]),
            )
            return
        carry_out(
            client,
            lambda key, consent: client.bulk_delete_dlq(wanted, idempotency_key=key, **consent),
            "delete the dead letters that match",
            idempotency_key=idempotency_key,
            dry_run=dry_run,
            yes=yes,
            wait=wait,
            output=output,
        )


def _require_one_way(wanted: LetterFilter, seq: int | None, *, dry_run: bool, wait: bool) -> None:
    """A slip of the finger must not reach every letter there is."""
    filtered = any(wanted.values())
    if seq is None and not filtered:
        raise InvalidCliArgument(
            "which letters? Give --seq, or at least one filter such as --reason or --flow"
        )
    if seq is not None and (filtered or dry_run or wait):
        raise InvalidCliArgument("--seq names one letter; leave the filters, --dry-run and --wait out")


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
        ("delivered", letter["num_delivered"] and f"{letter['num_delivered']} times"),
        ("subject", letter["subject"]),
        ("replayable", "yes" if letter["replayable"] else "no"),
    ]
    return pairs((name, printable(str(value))) for name, value in rows if value)
