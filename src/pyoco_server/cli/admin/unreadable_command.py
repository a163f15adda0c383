"""`pyoco-server-admin unreadable`: lists stored records that cannot be read, and removes them."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer
from rich.console import RenderableType

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.unreadable_scan import REMOVABLE, UnreadableScan
from pyoco_server.cli.lazy_group import examples
from pyoco_server.cli.options.client_options import OutputOption
from pyoco_server.cli.options.command_settings import settings_with
from pyoco_server.cli.options.shared_options import NatsUrl, option
from pyoco_server.cli.options.time_formats import ago
from pyoco_server.cli.views.console import printable, show
from pyoco_server.cli.views.list_views import Columns, list_view
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.unreadable_records import RecordKind

_CONNECT_SEC: Final = 5.0
_REMOVE_EXPECTED: Final = f"expected KIND/KEY as listed, KIND one of {', '.join(REMOVABLE)}"


def _checked_record(text: str) -> str:
    kind, _, key = text.partition("/")
    # The key becomes a part of a NATS subject.
    if kind not in REMOVABLE or not re.fullmatch(r"[\w=.-]{1,200}", key, re.ASCII):
        raise typer.BadParameter(f"{text!r}: {_REMOVE_EXPECTED}")
    if kind == RecordKind.DEAD_LETTER and not re.fullmatch(r"\d{1,18}", key, re.ASCII):
        raise typer.BadParameter(f"{text!r}: the key of a dead letter is its sequence number")
    return text


Removed = Annotated[
    list[str] | None,
    option(
        "Remove this record, if it still cannot be read; repeatable.",
        "KIND/KEY",
        "--remove",
        parser=_checked_record,
    ),
]


@examples(
    "pyoco-server-admin unreadable",
    "pyoco-server-admin unreadable --remove run/3f0c1a52-7f6e-4f0e-9d43-2f4a1d1f9f0b",
)
def unreadable(*, remove: Removed = None, output: OutputOption = None, nats_url: NatsUrl = None) -> None:
    config = settings_with(nats_url=nats_url)
    if remove:
        _remove(config, remove)
        return
    show(asyncio.run(_found(config)), output, _view)


def _remove(config: NatsBackendConfig, records: Sequence[str]) -> None:
    for record in records:
        kind, _, key = record.partition("/")
        try:
            removed = asyncio.run(_removed(config, RecordKind(kind), key))
        except ValueError as readable:
            raise typer.BadParameter(str(readable)) from None
        typer.echo(f"{'Removed' if removed else 'There is no'} {kind} {printable(key)}.")


async def _found(config: NatsBackendConfig) -> list[dict[str, Any]]:
    connection = await _connected(config)
    try:
        return [asdict(found) async for found in UnreadableScan(connection).all()]
    finally:
        await connection.close()


async def _removed(config: NatsBackendConfig, kind: RecordKind, key: str) -> bool:
    connection = await _connected(config)
    try:
        return await UnreadableScan(connection).remove(kind, key)
    finally:
        await connection.close()


async def _connected(config: NatsBackendConfig) -> Connection:
    connection = Connection(config, name="pyoco-server-admin")
    await connection.start()
    try:
        await connection.wait_ready(_CONNECT_SEC)
    except BaseException:
        await connection.close()
        raise
    return connection


_COLUMNS: Final[Columns] = {
    "Kind": lambda record: record["kind"],
    "Key": lambda record: printable(record["key"]),
    "Revision": lambda record: str(record["revision"]),
    "Stored": lambda record: ago(record["stored_at"]),
    "Problem": lambda record: printable(record["problem"]),
}


def _view(records: Sequence[dict[str, Any]]) -> RenderableType:
    return list_view(records, _COLUMNS, only_wide={"Revision"})
