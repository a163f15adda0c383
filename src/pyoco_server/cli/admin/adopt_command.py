"""`pyoco-server-admin adopt`: takes over the NATS data of the public package, or of an earlier version."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final

from rich.console import RenderableType
from rich.text import Text

from pyoco_server.broker.adoption import Adoption, AdoptionAction, Step
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.unreadable_scan import UnreadableScan
from pyoco_server.cli.entry import CommandFailed
from pyoco_server.cli.lazy_group import examples
from pyoco_server.cli.options.client_options import OutputOption
from pyoco_server.cli.options.command_settings import settings_with
from pyoco_server.cli.options.shared_options import NatsUrl, flag
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import print_note, printable, show
from pyoco_server.cli.views.list_views import Columns, list_view
from pyoco_server.config import NatsBackendConfig

_CONNECT_SEC: Final = 10.0
_UNREADABLE: Final = "unreadable"
_STYLES: Final = {AdoptionAction.IMPOSSIBLE: "bold red", _UNREADABLE: "bold red", AdoptionAction.KEEP: "dim"}

DryRun = Annotated[bool, flag("--dry-run", "Only list what would be done.")]


@examples("pyoco-server-admin adopt --dry-run", "pyoco-server-admin adopt")
def adopt(*, dry_run: DryRun = False, output: OutputOption = None, nats_url: NatsUrl = None) -> None:
    rows = asyncio.run(_adopted(settings_with(nats_url=nats_url), dry_run=dry_run))
    show(rows, output, _view)
    impossible = [row for row in rows if row["action"] in (AdoptionAction.IMPOSSIBLE, _UNREADABLE)]
    if impossible:
        raise CommandFailed(f"{len(impossible)} of these cannot be taken over (see docs/migration.md)")
    if dry_run:
        print_note(localized("Nothing was changed: this is what the command does without --dry-run."))
    else:
        print_note(localized("Done. Start gateways and workers of this version now."))


async def _adopted(config: NatsBackendConfig, *, dry_run: bool) -> list[dict[str, Any]]:
    connection = Connection(config, name="pyoco-server:admin")
    await connection.start()
    try:
        await connection.wait_ready(_CONNECT_SEC)
        steps = await Adoption(connection).steps()
        rows = [_row(step) for step in steps]
        pending = [step for step in steps if step.apply is not None]
        if any(step.action is AdoptionAction.IMPOSSIBLE for step in steps):
            return rows
        if not dry_run:
            for step in pending:
                assert step.apply is not None
                await step.apply()
        if not dry_run or not pending:
            rows += [_unreadable_row(asdict(found)) async for found in UnreadableScan(connection).all()]
        return rows
    finally:
        await connection.close()


def _row(step: Step) -> dict[str, Any]:
    return {"kind": step.kind, "name": step.name, "action": str(step.action), "detail": step.detail}


def _unreadable_row(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": str(found["kind"]),
        "name": found["key"],
        "action": _UNREADABLE,
        "detail": found["problem"],
    }


_COLUMNS: Final[Columns] = {
    "Kind": lambda row: printable(row["kind"]),
    "Name": lambda row: printable(row["name"]),
    "Action": lambda row: Text(row["action"], style=_STYLES.get(row["action"], "green")),
    "Detail": lambda row: printable(row["detail"]),
}


def _view(rows: Sequence[dict[str, Any]]) -> RenderableType:
    return list_view(rows, _COLUMNS, only_wide=set())
