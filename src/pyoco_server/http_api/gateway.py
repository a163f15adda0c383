"""One gateway: its connection to NATS and its services, for the life of the app."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from starlette.requests import HTTPConnection

from pyoco_server.agent.requests.repository_files import repository_of
from pyoco_server.aio.freed_memory import FreedMemory
from pyoco_server.aio.timekeeper import Timekeeper
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.server_clock import ServerClock
from pyoco_server.broker.storage.write_health import WriteHealth
from pyoco_server.broker.stores.runs.dead_letters import DeadLetters
from pyoco_server.broker.stores.runs.letter_counts import LetterCounts
from pyoco_server.broker.stores.runs.saved_view_store import SavedViewStore
from pyoco_server.broker.stores.trusted_records import trust_nothing_if_empty
from pyoco_server.broker.stores.workers.worker_registry import WorkerRegistry
from pyoco_server.broker.streams_and_buckets import ensure_resources
from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import services, trigger_services
from pyoco_server.http_api.middleware.request_counts import RequestCounts
from pyoco_server.records.workers.worker_models import WorkerRecord, WorkerState
from pyoco_server.runs.sweep.delayed_starts import DelayedStarts
from pyoco_server.runs.sweep.sweeper import Sweeper
from pyoco_server.runs.takeover.lost_worker_loop import LostWorkerLoop
from pyoco_server.waits.human.notifications import Notifier

S = TypeVar("S", bound=services.Service)


class Gateway:
    """The start order of the services is the order of the `_add_service` lines; they close in reverse."""

    def __init__(self, config: NatsBackendConfig) -> None:
        self.config = config
        # Set when the gateway is about to stop: open event streams end themselves.
        self.stopping = asyncio.Event()
        self._start_order: list[services.Service] = []

        self.connection = self._add_service(Connection(config, name="pyoco-server:http"))
        self.connection.on_connect(lambda: ensure_resources(self.connection))
        self.connection.on_connect(lambda: trust_nothing_if_empty(self.connection))
        self.clock = ServerClock(self.connection)
        self.connection.on_connect(self.clock.on_connect)
        self.timekeeper = Timekeeper(self.connection.wait_ready, self.clock.now)
        self.timekeeper.add(self.clock)
        self.storage = self._add_service(WriteHealth(self.connection))
        self.authentication = self._add_service(services.Authentication(self.connection))
        self.listing = self._add_service(services.RunReadModel(self.connection))
        self.timekeeper.add(FreedMemory([self.listing.index.free_caches]))
        self.runs = self._add_service(
            services.Runs(self.connection, self.listing.lists, is_lost=self.is_lost, clock=self.clock.now)
        )
        self.sweeper = self._add_service(
            Sweeper(self.connection, self.listing.lists, self.listing.open_runs, clock=self.clock.now)
        )
        self._release_delayed_starts()
        self.takeover = self._add_service(
            LostWorkerLoop(
                self.connection,
                self.listing.lists,
                self.listing.open_runs,
                self.sweeper.unowned_runs,
                self.sweeper.undeliverable_jobs,
            )
        )
        self.flows = self._add_service(services.Flows(self.connection, state_of=self.state_of))
        self.bulk = self._add_service(services.Bulk(self.connection, self.runs.submitter))
        self.wheels = self._add_service(services.Wheels(self.connection))
        self.waits = self._add_service(
            services.Waits(self.connection, self.listing.open_runs, clock=self.clock.now)
        )
        self.schedules = self._add_service(
            services.Schedules(self.connection, self.timekeeper, self.clock, self.listing.open_runs)
        )
        self.signals = self._add_service(services.Signals(self.connection, self.waits, clock=self.clock.now))
        self.notifications = self._add_service(Notifier(self.connection))
        self.triggers = self._add_service(trigger_services.Triggers(self.connection))
        self.hooks = self._add_service(
            trigger_services.Hooks(self.connection, self.timekeeper, self.triggers.directory)
        )
        self.workflow_events = self._add_service(
            trigger_services.WorkflowEventParts(
                self.connection,
                self.timekeeper,
                self.triggers.directory,
                self.runs.submitter,
                live_workers=self.live_workers,
            )
        )
        self.alerts = self._add_service(services.Alerts(self.connection, self.timekeeper, self.listing.lists))
        self.audit = self._add_service(services.Audit(self.connection, self.runs.store))
        self.agent_requests = self._serve_repository()
        # Last: its sources are parts of the others.
        self._add_service(self.timekeeper)

        # These have nothing to start or to close.
        self.cursors = services.SharedCursors(self.connection)
        self.dead_letters = DeadLetters(self.connection)
        self.letter_counts = LetterCounts(self.connection, self.dead_letters)
        self.workers = WorkerRegistry(self.connection)
        self.views = SavedViewStore(self.connection, clock=self.clock.now)
        self.request_counts = RequestCounts()
        self.overviews: services.SharedResults[bytes] = services.SharedResults()
        self.statistics: services.SharedResults[bytes] = services.SharedResults()

    def _serve_repository(self) -> services.AgentRequests | None:
        """Agent requests, if this gateway serves a repository (PYOCO_AGENT_REPO)."""
        repository = repository_of(self.config, clock=self.timekeeper.now)
        if repository is None:
            return None
        return self._add_service(
            services.AgentRequests(
                self.connection, repository, self.timekeeper, self.listing.run_hub, self.waits.answers
            )
        )

    def is_lost(self, worker: WorkerRecord) -> bool:
        """Whether the process of this worker is gone."""
        return self.takeover.is_lost(worker)

    async def live_workers(self) -> list[WorkerRecord]:
        return [worker for worker in await self.workers.all() if self.state_of(worker).alive]

    def state_of(self, worker: WorkerRecord) -> WorkerState:
        return worker.observed_state(
            disconnect_timeout_sec=self.config.worker_disconnect_timeout_sec,
            lost=self.is_lost(worker),
        )

    def _add_service(self, service: S) -> S:
        self._start_order.append(service)
        return service

    def _release_delayed_starts(self) -> None:
        starts = DelayedStarts(self.sweeper.unowned_runs, self.listing.open_runs, self.connection.urgent)
        self.timekeeper.add(starts)

        def on_scheduled(run_id: str, start_at: float) -> None:
            if starts.add(run_id, start_at):
                self.timekeeper.wake(starts.name)

        self.listing.open_runs.on_scheduled(on_scheduled)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """A gateway also starts while NATS is unreachable: it connects in the background."""
        async with AsyncExitStack() as started:
            for service in self._start_order:
                started.push_async_callback(service.close)
                await service.start()
            started.callback(self.stopping.set)
            yield


def gateway_of(request: HTTPConnection) -> Gateway:
    gateway = request.app.state.gateway
    assert isinstance(gateway, Gateway)
    return gateway
