"""Records that are written straight into NATS: no gateway, no worker, no queue."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import islice
from typing import Final, TypeVar

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.streams_and_buckets import ensure_resources
from pyoco_server.config import NatsBackendConfig

_AT_ONCE: Final = 256

T = TypeVar("T")


@asynccontextmanager
async def connected(config: NatsBackendConfig) -> AsyncIterator[Connection]:
    connection = Connection(config, name="benchmark:seed")
    connection.on_connect(lambda: ensure_resources(connection))
    await connection.start()
    try:
        await connection.wait_ready(20)
        yield connection
    finally:
        await connection.close()


async def for_each(act: Callable[[T], Awaitable[None]], items: Iterable[T]) -> None:
    left = iter(items)
    while batch := list(islice(left, _AT_ONCE)):
        await asyncio.gather(*map(act, batch))
