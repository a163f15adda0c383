"""One gateway: its connection to NATS and its services, for the life of the app."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from starlette.requests import HTTPConnection

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.resources import ensure_resources
from pyoco_server.broker.stores.dead_letters import DeadLetters
from pyoco_server.broker.stores.worker_registry import WorkerRegistry
from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.middleware.request_counts import RequestCounts
from pyoco_server.http_api.services import (
    Authentication,
    Bulk,
    RunListing,
    Runs,
    Service,
    SharedCursors,
    SharedResponses,
    Waits,
    Wheels,
)
from pyoco_server.human.notifications.notifier import Notifier
from pyoco_server.runs.sweep.sweeper import Sweeper

S = TypeVar("S", bound=Service)


class Gateway:
    """Services are started in the order in which they are added, and closed in reverse."""

    def __init__(self, config: NatsBackendConfig) -> None:
        self.config = config
        # Set when the gateway is about to stop: open event streams end themselves.
        self.stopping = asyncio.Event()
        self._services: list[Service] = []

        self.connection = self._add(Connection(config, name="pyoco-server:http"))
        self.connection.add_hook(lambda: ensure_resources(self.connection))
        self.authentication = self._add(Authentication(self.connection))
        self.listing = self._add(RunListing(self.connection))
        self.runs = self._add(Runs(self.connection, self.listing.lists))
        self.sweeper = self._add(Sweeper(self.connection, self.listing.lists, self.listing.open_runs))
        self.bulk = self._add(Bulk(self.connection, self.runs.submitter))
        self.wheels = self._add(Wheels(self.connection))
        self.waits = self._add(Waits(self.connection, self.listing.open_runs))
        self.notifications = self._add(Notifier(self.connection))

        # These have nothing to start or to close.
        self.cursors = SharedCursors(self.connection)
        self.dead_letters = DeadLetters(self.connection)
        self.workers = WorkerRegistry(self.connection)
        self.requests = RequestCounts()
        self.overviews = SharedResponses()

    def _add(self, service: S) -> S:
        self._services.append(service)
        return service

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """A gateway also starts while NATS is unreachable: it connects in the background."""
        async with AsyncExitStack() as started:
            for service in self._services:
                started.push_async_callback(service.close)
                await service.start()
            started.callback(self.stopping.set)
            yield


def gateway_of(request: HTTPConnection) -> Gateway:
    gateway = request.app.state.gateway
    assert isinstance(gateway, Gateway)
    return gateway
