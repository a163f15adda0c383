"""A connection to NATS, as the product makes it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.resources import ensure_resources
from pyoco_server.config import NatsBackendConfig
from tests.support.waiting import LIMIT_SEC


@asynccontextmanager
async def connected(
    config: NatsBackendConfig, *, with_resources: bool = True, ready: bool = True
) -> AsyncIterator[Connection]:
    """A connection that is ready, or only started, with every stream and bucket created."""
    connection = Connection(config, name="test")
    if with_resources:
        connection.add_hook(lambda: ensure_resources(connection))
    await connection.start()
    try:
        if ready:
            await connection.wait_ready(LIMIT_SEC)
        yield connection
    finally:
        async with asyncio.timeout(LIMIT_SEC):
            await connection.close()
