"""What the routes work with: one NATS connection and the stores on it, for the life of the app."""

import asyncio
from dataclasses import dataclass

from starlette.requests import Request

from pyoco_server.broker.connection import Connection
from pyoco_server.broker.resources import ensure_resources
from pyoco_server.broker.run_logs import RunLogs
from pyoco_server.broker.run_store import RunStore
from pyoco_server.broker.run_watch import RunWatches
from pyoco_server.broker.worker_registry import WorkerRegistry
from pyoco_server.config import NatsBackendConfig
from pyoco_server.runs.submit import Submitter
from pyoco_server.runs.sweep import Sweeper


@dataclass(frozen=True, slots=True)
class Gateway:
    config: NatsBackendConfig
    connection: Connection
    runs: RunStore
    logs: RunLogs
    watches: RunWatches
    workers: WorkerRegistry
    submitter: Submitter
    sweeper: Sweeper
    # Set when this gateway is about to end: answers that would stay open end themselves.
    stopping: asyncio.Event

    @classmethod
    def create(cls, config: NatsBackendConfig) -> "Gateway":
        connection = Connection(config, name="pyoco-server:http")
        connection.add_hook(lambda: ensure_resources(connection))
        return cls(
            config=config,
            connection=connection,
            runs=RunStore(connection),
            logs=RunLogs(connection),
            watches=RunWatches(connection),
            workers=WorkerRegistry(connection),
            submitter=Submitter(connection),
            sweeper=Sweeper(connection),
            stopping=asyncio.Event(),
        )

    async def start(self) -> None:
        """Begin to connect; a gateway also starts when NATS is not there yet."""
        await self.connection.start()
        await self.submitter.start()
        await self.sweeper.start()

    async def close(self) -> None:
        self.stopping.set()
        await self.sweeper.close()
        await self.submitter.close()
        await self.connection.close()


def gateway_of(request: Request) -> Gateway:
    gateway = request.app.state.gateway
    assert isinstance(gateway, Gateway)
    return gateway
