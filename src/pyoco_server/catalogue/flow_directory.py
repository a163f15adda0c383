"""A gateway's copy of the worker records and of the catalogues that they refer to.

A catalogue is read once for all workers with the same code, and again only when a digest changes.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyoco_server.aio.background import BackgroundLoop
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.client.subscriptions import RenewableSubscription
from pyoco_server.broker.stores.workers.flow_catalogue_store import FlowCatalogueStore
from pyoco_server.broker.stores.workers.worker_registry import WorkerRegistry
from pyoco_server.catalogue.live_flows import FlowGroup, LiveFlows
from pyoco_server.errors import NatsUnavailable, UnreadableRecord
from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.workers.flow_models import FlowDescription
from pyoco_server.records.workers.worker_models import MAX_LISTED_FLOWS, WorkerRecord, WorkerState

log = logging.getLogger(__name__)

# How often it is checked which workers are alive.
_CHECK_EVERY_SEC: Final = 1.0
_COALESCE_SEC: Final = 0.05
# A catalogue that cannot be read is tried again after this time.
_RETRY_SEC: Final = 5.0

_decode_worker = record_decoder(WorkerRecord, whole=False)


@dataclass(frozen=True, slots=True)
class _Catalogue:
    version: str
    flows: Mapping[str, FlowDescription]


class FlowDirectory:
    def __init__(self, connection: Connection, state_of: Callable[[WorkerRecord], WorkerState]) -> None:
        self._connection = connection
        self._state_of = state_of
        self._registry = WorkerRegistry(connection)
        self._store = FlowCatalogueStore(connection)
        self._records = RenewableSubscription(
            connection, self._on_record, f"$KV.{connection.config.workers_kv_bucket}.*"
        )
        self._workers: dict[str, WorkerRecord] = {}
        self._catalogues: dict[str, _Catalogue] = {}
        # When to try again what could not be read, by the monotonic clock.
        self._retry_at: dict[str, float] = {}
        # What `current` was made of.
        self._shown: object = None
        self._connected_since = 0.0
        self._updating = asyncio.Lock()
        self._loop = BackgroundLoop("the catalogue of flows", self._step)
        # Whether a worker has changed something that `current` lacks.
        self.is_outdated = False
        # Whether all workers were read.
        self.ready = False
        # Replaced by another object when anything changes.
        self.current = LiveFlows()

    async def start(self) -> None:
        self._loop.start()

    async def close(self) -> None:
        await self._loop.close()

    def worker(self, worker_id: str) -> WorkerRecord | None:
        """Its newest record; None: it is not alive any more."""
        return self._workers.get(worker_id)

    async def refresh(self) -> None:
        """Read all workers and their catalogues as they are stored now; NatsUnavailable if that fails."""
        async with self._updating:
            await self._read_workers()
            await self._update()

    async def catch_up(self) -> None:
        """Take over what workers have reported; without NATS, later."""
        try:
            async with self._updating:
                await self._update()
        except NatsUnavailable as error:
            log.debug("the catalogue of flows is updated later: %s", error)

    def _on_record(self, message: Message) -> None:
        try:
            record = _decode_worker(message.data)
        except UnreadableRecord:
            # A marker, or a record that cannot be read.
            return
        before = self._workers.get(record.worker_id)
        self._workers[record.worker_id] = record
        if before is None or _content(before) != _content(record):
            self.is_outdated = True
            self._loop.wake()

    async def _step(self) -> None:
        if await self._loop.pause(_CHECK_EVERY_SEC if self.ready else 0):
            # Workers that are started together are taken over together.
            await asyncio.sleep(_COALESCE_SEC)
        await self._connection.wait_ready()
        try:
            async with self._updating:
                await self._follow()
                await self._update()
        except NatsUnavailable as error:
            log.debug("the catalogue of flows is read later: %s", error)
            await asyncio.sleep(_CHECK_EVERY_SEC)

    async def _follow(self) -> None:
        is_new = await self._records.renew()
        if is_new or self._connected_since != self._connection.state.since:
            # Messages were missed.
            since = self._connection.state.since
            await self._read_workers()
            self._connected_since = since

    async def _read_workers(self) -> None:
        for record in await self._registry.all():
            known = self._workers.get(record.worker_id)
            # A message may have come meanwhile.
            if known is None or known.last_seen_at <= record.last_seen_at:
                self._workers[record.worker_id] = record
        self.ready = True

    async def _update(self) -> None:
        self.is_outdated = False
        # A worker that comes back writes its record again.
        self._workers = {key: each for key, each in self._workers.items() if self._state_of(each).alive}
        await self._read_catalogues()
        shown = {key: (*_content(each), self._is_described(each)) for key, each in self._workers.items()}
        if shown != self._shown:
            self._shown = shown
            self.current = LiveFlows(self._groups())

    async def _read_catalogues(self) -> None:
        used = {each.catalogue.digest for each in self._workers.values() if each.catalogue is not None}
        self._catalogues = {key: each for key, each in self._catalogues.items() if key in used}
        self._retry_at = {key: at for key, at in self._retry_at.items() if key in used}
        for digest in used - self._catalogues.keys():
            if time.monotonic() >= self._retry_at.get(digest, 0.0):
                await self._read_catalogue(digest)

    async def _read_catalogue(self, digest: str) -> None:
        self._retry_at[digest] = time.monotonic() + _RETRY_SEC
        try:
            found = await self._store.load(digest)
        except UnreadableRecord as error:
            log.warning("flows are listed without their descriptions: %s", error.detail)
            return
        if found is not None:
            self._catalogues[digest] = _Catalogue(found.version, {flow.name: flow for flow in found.flows})

    def _is_described(self, worker: WorkerRecord) -> bool:
        return worker.catalogue is not None and worker.catalogue.digest in self._catalogues

    def _groups(self) -> list[FlowGroup]:
        together: dict[object, list[WorkerRecord]] = defaultdict(list)
        for worker in self._workers.values():
            digest = None if worker.catalogue is None else worker.catalogue.digest
            flows = digest if digest in self._catalogues else (digest, *worker.flows)
            together[frozenset(worker.tags), flows].append(worker)
        return [self._group(workers) for workers in together.values()]

    def _group(self, workers: list[WorkerRecord]) -> FlowGroup:
        first = workers[0]
        tags, ids = frozenset(first.tags), sorted(worker.worker_id for worker in workers)
        found = None if first.catalogue is None else self._catalogues.get(first.catalogue.digest)
        if found is not None:
            return FlowGroup(tags, found.version, found.flows, is_complete=True, workers=ids)
        # Of a version without catalogues, or the catalogue cannot be read now.
        names = {name: FlowDescription(name=name) for name in first.flows}
        is_complete = 0 < len(names) < MAX_LISTED_FLOWS
        return FlowGroup(tags, None, names, is_complete=is_complete, workers=ids)


def _content(worker: WorkerRecord) -> tuple[object, ...]:
    """What matters here of a record: a heartbeat changes nothing of it."""
    return worker.instance_id, worker.state.alive, worker.tags, worker.flows, worker.catalogue
