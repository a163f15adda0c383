"""A connection to NATS, as the product makes it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.jetstream_api import call
from pyoco_server.broker.streams_and_buckets import ensure_resources
from pyoco_server.config import NatsBackendConfig
from tests.support.waiting import LIMIT_SEC

T = TypeVar("T")


@asynccontextmanager
async def connected(
    config: NatsBackendConfig, *, with_resources: bool = True, ready: bool = True
) -> AsyncIterator[Connection]:
    """A connection that is ready, or only started, with every stream and bucket created."""
    connection = Connection(config, name="test")
    if with_resources:
        connection.on_connect(lambda: ensure_resources(connection))
    await connection.start()
    try:
        if ready:
            await connection.wait_ready(LIMIT_SEC)
        yield connection
    finally:
        async with asyncio.timeout(LIMIT_SEC):
            await connection.close()


async def empty(connection: Connection) -> None:
    """Remove all that is stored, consumers, and what the server remembers of message ids. Sequences go on."""
    for stream in (await call(connection, "STREAM.LIST"))["streams"]:
        name, state = stream["config"]["name"], stream["state"]
        if state["messages"]:
            await call(connection, f"STREAM.PURGE.{name}")
        if state["consumer_count"]:
            for consumer in (await call(connection, f"CONSUMER.NAMES.{name}"))["consumers"] or []:
                await call(connection, f"CONSUMER.DELETE.{name}.{consumer}")


class SyncConnection:
    """A connection in an event loop of its own, for tests without one."""

    def __init__(self, portal: BlockingPortal, connection: Connection) -> None:
        self._portal = portal
        self._connection = connection

    def do(self, action: Callable[[Connection], Awaitable[T]]) -> T:
        return self._portal.call(action, self._connection)


@contextmanager
def sync_connection(nats_url: str) -> Iterator[SyncConnection]:
    config = NatsBackendConfig(nats_url=nats_url, load_dotenv=False)
    with (
        start_blocking_portal(backend_options={"use_uvloop": True}) as portal,
        portal.wrap_async_context_manager(connected(config)) as connection,
    ):
        yield SyncConnection(portal, connection)
