"""Reports the flows of a worker: their names in its record, and their descriptions as a stored catalogue."""

import asyncio
import logging
from contextlib import suppress
from typing import Final

from pyoco_server.aio.background import BackgroundLoop, Backoff
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.workers.flow_catalogue_store import FlowCatalogueStore
from pyoco_server.errors import NatsUnavailable, UnreadableRecord
from pyoco_server.worker.ipc.protocol import Ready
from pyoco_server.worker.session.presence import Presence

log = logging.getLogger(__name__)

# How long the start of the worker waits for the catalogue.
_FIRST_ATTEMPT_SEC: Final = 0.5
_RETRY_SEC: Final = (1.0, 60.0)


class FlowReports:
    """A catalogue that cannot be stored now is retried; the worker executes runs meanwhile.

    Gateways of an earlier version have no bucket for it, and old permissions do not allow it.
    """

    def __init__(self, connection: Connection, presence: Presence) -> None:
        self._connection = connection
        self._presence = presence
        self._store = FlowCatalogueStore(connection)
        self._catalogue = b""
        self._is_stored = True
        self._backoff = Backoff(*_RETRY_SEC)
        self._loop = BackgroundLoop("the catalogue of flows", self._step)

    def report(self, ready: Ready) -> None:
        """What a process has found that has loaded the flows."""
        self._presence.report_flows(ready.flows)
        if ready.catalogue != self._catalogue:
            self._catalogue, self._is_stored = ready.catalogue, False
            self._loop.wake()

    async def try_first(self) -> None:
        """Before the first record, so that gateways find both at once."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_ATTEMPT_SEC):
                await self._store_catalogue()

    def start(self) -> None:
        self._connection.on_connect(self._on_connect)
        self._loop.start()

    async def close(self) -> None:
        await self._loop.close()

    async def _on_connect(self) -> None:
        # The server may have lost its data, or removed a catalogue that no live worker seemed to use.
        self._is_stored = False
        self._loop.wake()

    async def _step(self) -> None:
        await self._loop.pause(None if self._is_stored else self._backoff.next_sec())
        await self._store_catalogue()

    async def _store_catalogue(self) -> None:
        if self._is_stored or not self._catalogue:
            self._is_stored = True
            return
        catalogue = self._catalogue
        try:
            reference = await self._store.store(catalogue)
        except NatsUnavailable as error:
            log.info("the descriptions of the flows cannot be stored now: %s", error)
            return
        except UnreadableRecord as error:
            # The code of flows runs in the process that has made it.
            log.warning("the descriptions of the flows are not valid, and not stored: %s", error.detail)
            reference = None
        if catalogue == self._catalogue:
            self._is_stored = True
            self._backoff.reset()
            self._presence.report_catalogue(reference)
