"""Hints that a run has changed: plain subscriptions on the subjects under which it is stored.

A hint may be lost in an outage, or before a cluster knows of the subscription; and a write that JetStream
refuses is announced as well. So a watcher reads first, and reads again after a long silence.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.client.subscriptions import RenewableSubscription
from pyoco_server.broker.stores.runs.run_log_store import log_subject
from pyoco_server.errors import NatsUnavailable, UnreadableRecord
from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.runs.run_models import RunStatus

log = logging.getLogger(__name__)


class _WrittenStatus(msgspec.Struct):
    status: RunStatus


_decode = record_decoder(_WrittenStatus, whole=False)


class RunWatch:
    """One watched run. Every hint sets the same flag, so that a slow reader has no backlog."""

    def __init__(self) -> None:
        # The status as last read; None: unknown, to be read.
        self.status: RunStatus | None = None
        self._changed = asyncio.Event()
        # Announced lines or an announced end, to be read until they are stored.
        self._news = False
        self._end = False

    def reset(self) -> bool:
        """Reset the hints; call it before reading, so that nothing is missed afterwards.

        Return whether lines, or the run's end, were announced.
        """
        self._changed.clear()
        if self._end:
            self.status = None
        news, self._news, self._end = self._news, False, False
        return news

    async def wait(self, within: float) -> None:
        """Wait for a hint; after a silence of that length, the status counts as unknown."""
        try:
            async with asyncio.timeout(within):
                await self._changed.wait()
        except TimeoutError:
            self.status = None

    def on_reconnected(self) -> None:
        """Hints may have been missed."""
        self.status = None
        self._changed.set()

    def on_snapshot(self, message: Message) -> None:
        try:
            may_have_ended = _decode(message.data).status.terminal
        except UnreadableRecord:
            # The run was deleted, or this is not a snapshot: the reader finds out.
            may_have_ended = True
        if may_have_ended:
            self._end = self._news = True
        self._changed.set()

    def on_lines(self, message: Message) -> None:
        self._news = True
        self._changed.set()


class RunWatches:
    """The watched runs of one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._subscriptions: dict[RunWatch, list[RenewableSubscription]] = {}
        connection.on_connect(self._on_connected)

    def __len__(self) -> int:
        return len(self._subscriptions)

    @asynccontextmanager
    async def watching(self, run_id: str) -> AsyncIterator[RunWatch]:
        """Watch the run's snapshots and lines inside the block, as soon as there is a connection."""
        watch = RunWatch()
        config = self._connection.config
        subscriptions = [
            RenewableSubscription(
                self._connection, watch.on_snapshot, f"$KV.{config.runs_kv_bucket}.{run_id}"
            ),
            RenewableSubscription(self._connection, watch.on_lines, log_subject(config, run_id)),
        ]
        self._subscriptions[watch] = subscriptions
        try:
            with suppress(NatsUnavailable):  # `on_connect` subscribes when the connection is back
                for subscription in subscriptions:
                    await subscription.renew()
            yield watch
        finally:
            del self._subscriptions[watch]
            for subscription in subscriptions:
                await subscription.end()

    async def _on_connected(self) -> None:
        for watch, subscriptions in list(self._subscriptions.items()):
            for subscription in subscriptions:
                # A watch that ends meanwhile must not be subscribed again.
                if watch in self._subscriptions:
                    await subscription.renew()
            watch.on_reconnected()
