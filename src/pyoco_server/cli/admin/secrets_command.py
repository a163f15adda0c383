"""`pyoco-server-admin secrets`: the keys that stored secrets are encrypted with."""

import asyncio
from typing import Final

import typer

from pyoco_server.broker.client.connection import Connection
from pyoco_server.cli.entry import FAILURE
from pyoco_server.cli.lazy_group import examples
from pyoco_server.cli.options.command_settings import settings_with
from pyoco_server.cli.options.shared_options import NatsUrl
from pyoco_server.cli.views.console import print_note, printable
from pyoco_server.config import NatsBackendConfig
from pyoco_server.triggers.secret_keys import box_of, new_key
from pyoco_server.triggers.secret_rotation import RotationResult, SecretRotation
from pyoco_server.triggers.secrets_at_rest import SecretBox

_CONNECT_SEC: Final = 5.0


@examples("pyoco-server-admin secrets create-key")
def create_key() -> None:
    typer.echo(new_key())
    print_note(
        "Set it as PYOCO_SECRETS_KEYS for every gateway, in front of the keys in use, and keep a copy: "
        "without it, stored secrets cannot be read."
    )


@examples("pyoco-server-admin secrets rotate")
def rotate(*, nats_url: NatsUrl = None) -> None:
    config = settings_with(nats_url=nats_url)
    box = box_of(config)
    box.require_key()
    done = asyncio.run(_rotated(config, box))
    typer.echo(f"{done.changed} secrets encrypted again, {done.current} were under the first key already.")
    for key, why in done.failed.items():
        typer.echo(f"{printable(key)}: {printable(why)}")
    if done.failed:
        print_note(f"{len(done.failed)} could not be encrypted again; keep all keys until they are.")
        raise typer.Exit(FAILURE)
    if box.key_count > 1:
        print_note(
            "Only the first key is needed now: remove the others from PYOCO_SECRETS_KEYS of every gateway, "
            "or from the file of keys."
        )


async def _rotated(config: NatsBackendConfig, box: SecretBox) -> RotationResult:
    connection = Connection(config, name="pyoco-server-admin")
    await connection.start()
    try:
        await connection.wait_ready(_CONNECT_SEC)
        return await SecretRotation(connection, box).run()
    finally:
        await connection.close()
