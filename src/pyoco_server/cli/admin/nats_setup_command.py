"""`pyoco-server-admin nats-setup`: makes what gateways and workers use, so that they need no right to."""

import asyncio
import re
from typing import Annotated, Final

import typer

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.resources import ensure_resources, resources
from pyoco_server.cli.entry import examples
from pyoco_server.cli.options.common_options import NatsUrl, settings_with
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.models import TAG_EXPECTED, TAG_PATTERN

EPILOG: Final = examples(
    "pyoco-server-admin nats-setup", "pyoco-server-admin nats-setup --tag default --tag gpu"
)
_CONNECT_SEC: Final = 10.0


def _checked_tag(text: str) -> str:
    if not re.fullmatch(TAG_PATTERN, text):
        raise typer.BadParameter(f"{text!r}: {TAG_EXPECTED}")
    return text


Tags = Annotated[
    list[str] | None,
    typer.Option(
        "--tag",
        help="A tag that workers will serve (default: PYOCO_DEFAULT_TAG); may be repeated.",
        metavar="TAG",
        parser=_checked_tag,
    ),
]


def nats_setup(*, tag: Tags = None, nats_url: NatsUrl = None) -> None:
    """Make the streams, the buckets and the queues of the tags; what exists stays as it is."""
    config = settings_with(nats_url=nats_url)
    tags = tag or [config.default_tag]
    asyncio.run(_set_up(config, tags))
    typer.echo(
        f"{len(resources(config))} streams and buckets are there, and the queues of {', '.join(tags)}."
    )


async def _set_up(config: NatsBackendConfig, tags: list[str]) -> None:
    connection = Connection(config, name="pyoco-server:admin")
    connection.add_hook(lambda: ensure_resources(connection))
    await connection.start()
    try:
        await connection.wait_ready(_CONNECT_SEC)
        queue = WorkQueue(connection)
        for tag in tags:
            await queue.ensure_consumer(tag)
    finally:
        await connection.close()
