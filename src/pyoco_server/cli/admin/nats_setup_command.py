"""`pyoco-server-admin nats-setup`: creates NATS resources for users that may not create them."""

import asyncio
from typing import Annotated, Final

import typer

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.queue.tag_consumers import ensure_consumer
from pyoco_server.broker.stores.trusted_records import forget_trusted_records, trust_nothing_if_empty
from pyoco_server.broker.streams_and_buckets import ensure_resources, resources
from pyoco_server.cli.lazy_group import examples
from pyoco_server.cli.options.command_settings import settings_with
from pyoco_server.cli.options.shared_options import NatsUrl, checked_tag, flag, option
from pyoco_server.config import NatsBackendConfig

_CONNECT_SEC: Final = 10.0


Tags = Annotated[
    list[str] | None,
    option(
        "Tag that workers will serve (default: PYOCO_DEFAULT_TAG); repeatable.",
        "TAG",
        "--tag",
        parser=checked_tag,
    ),
]


SignStoredRuns = Annotated[
    bool,
    flag(
        "--sign-stored-runs",
        "Trust the runs that are stored now: gateways sign those without a valid signature. "
        "Use it once, after workers or gateways of an earlier version have run beside new ones.",
    ),
]


@examples("pyoco-server-admin nats-setup", "pyoco-server-admin nats-setup --tag default --tag gpu")
def nats_setup(
    *, tag: Tags = None, sign_stored_runs: SignStoredRuns = False, nats_url: NatsUrl = None
) -> None:
    config = settings_with(nats_url=nats_url)
    tags = tag or [config.default_tag]
    asyncio.run(_set_up(config, tags, sign_stored_runs=sign_stored_runs))
    typer.echo(f"{len(resources(config))} streams and buckets exist, and the queues of {', '.join(tags)}.")
    if sign_stored_runs:
        typer.echo("The next sweep of a gateway signs the runs that are stored.")


async def _set_up(config: NatsBackendConfig, tags: list[str], *, sign_stored_runs: bool) -> None:
    connection = Connection(config, name="pyoco-server:admin")
    connection.on_connect(lambda: ensure_resources(connection))
    # Before a worker can connect: what it wrote until the first gateway starts would be trusted.
    connection.on_connect(lambda: trust_nothing_if_empty(connection))
    await connection.start()
    try:
        await connection.wait_ready(_CONNECT_SEC)
        for tag in tags:
            await ensure_consumer(connection, tag)
        if sign_stored_runs:
            await forget_trusted_records(connection)
    finally:
        await connection.close()
