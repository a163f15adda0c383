"""A connection to the test's own NATS account, with the product's streams made."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.resources import ensure_resources
from pyoco_server.config import NatsBackendConfig
from tests.support.waiting import LIMIT_SEC


@asynccontextmanager
async def connected(config: NatsBackendConfig) -> AsyncIterator[Connection]:
    connection = Connection(config, name="test")
    connection.add_hook(lambda: ensure_resources(connection))
    await connection.start()
    try:
        await connection.wait_ready(LIMIT_SEC)
        yield connection
    finally:
        await connection.close()
