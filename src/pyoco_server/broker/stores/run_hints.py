"""Hearing while a run is written about: plain subscriptions on the subjects under which it is stored.

What is heard is only a hint to look: it may be lost in an outage, or before a cluster knows of the
subscription; and a write that JetStream refuses is heard as well. Who watches reads first, and looks again by
itself after a long silence.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.client.renewable_subscription import RenewableSubscription
from pyoco_server.broker.stores.run_log_store import log_subject
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.models import RunStatus

log = logging.getLogger(__name__)


class _Written(msgspec.Struct):
    """All that is wanted of a snapshot here."""

    status: RunStatus


_decode = msgspec.json.Decoder(_Written).decode


class RunWatch:
    """One run, watched. Whatever happens sets one flag, so that nothing piles up behind a slow reader."""

    def __init__(self) -> None:
        # The status as it was last read; None: not known, to be read.
        self.status: RunStatus | None = None
        self._stirred = asyncio.Event()
        # Lines, or an end: to be looked for until they are stored.
        self._heard_news = False
        self._heard_end = False

    def settle(self) -> bool:
        """Forget what has stirred so far: to be called before reading, so that nothing is missed after it.

        Whether lines, or the run's end, were among it.
        """
        self._stirred.clear()
        if self._heard_end:
            self.status = None
        heard_news, self._heard_news, self._heard_end = self._heard_news, False, False
        return heard_news

    async def stirs(self, within: float) -> None:
        """Wait until something happens; after a silence of that length, the status counts as unknown."""
        try:
            async with asyncio.timeout(within):
                await self._stirred.wait()
        except TimeoutError:
            self.status = None

    def lost_touch(self) -> None:
        """Anything may have happened."""
        self.status = None
        self._stirred.set()

    def on_snapshot(self, message: Message) -> None:
        try:
            may_have_ended = _decode(message.data).status.terminal
        except (msgspec.DecodeError, UnicodeDecodeError):
            # The run was deleted, or something else wrote there; whoever reads it finds out.
            may_have_ended = True
        if may_have_ended:
            self._heard_end = self._heard_news = True
        self._stirred.set()

    def on_lines(self, message: Message) -> None:
        self._heard_news = True
        self._stirred.set()


class RunWatches:
    """The watched runs of one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._subscriptions: dict[RunWatch, list[RenewableSubscription]] = {}
        connection.add_hook(self._on_connected)

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
            with suppress(NatsUnavailable):  # the hook subscribes when the connection is back
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
            watch.lost_touch()
