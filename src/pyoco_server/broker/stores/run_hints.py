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
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from pyoco_server.broker.client.connection import Connection
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

    async def on_snapshot(self, message: Msg) -> None:
        try:
            may_have_ended = _decode(message.data).status.terminal
        except (msgspec.DecodeError, UnicodeDecodeError):
            # The run was deleted, or something else wrote there; whoever reads it finds out.
            may_have_ended = True
        if may_have_ended:
            self._heard_end = self._heard_news = True
        self._stirred.set()

    async def on_lines(self, message: Msg) -> None:
        self._heard_news = True
        self._stirred.set()


class RunWatches:
    """The runs under watch on one connection, kept over reconnects."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._subscribed: dict[RunWatch, _Subscriptions] = {}
        connection.add_hook(self._on_connected)

    def __len__(self) -> int:
        return len(self._subscribed)

    @asynccontextmanager
    async def watching(self, run_id: str) -> AsyncIterator[RunWatch]:
        """Hear of the run's snapshots and lines inside the block, as soon as there is a connection."""
        watch = RunWatch()
        subscriptions = _Subscriptions(self._connection, run_id, watch)
        self._subscribed[watch] = subscriptions
        try:
            with suppress(NatsUnavailable):  # then the hook does it, when the connection is back
                await subscriptions.renew()
            yield watch
        finally:
            del self._subscribed[watch]
            await subscriptions.end()

    async def _on_connected(self) -> None:
        for watch, subscriptions in list(self._subscribed.items()):
            await subscriptions.renew()
            watch.lost_touch()


class _Subscriptions:
    """What one watch is subscribed to."""

    def __init__(self, connection: Connection, run_id: str, watch: RunWatch) -> None:
        config = connection.config
        self._connection = connection
        self._handlers = {
            f"$KV.{config.runs_kv_bucket}.{run_id}": watch.on_snapshot,
            log_subject(config, run_id): watch.on_lines,
        }
        self._client: Client | None = None
        self._open: dict[str, Subscription] = {}
        # Whoever begins to watch, and the hook of the connection, may both be at it.
        self._changing = asyncio.Lock()
        self._over = False

    async def renew(self) -> None:
        async with self._changing:
            # nats-py renews subscriptions over a reconnect, but not over a connection that was made anew.
            if self._client is not self._connection.client:
                self._client, self._open = self._connection.client, {}
            for subject, handler in self._handlers.items():
                if subject not in self._open and not self._over:
                    self._open[subject] = await self._connection.subscribe(subject, handler)

    async def end(self) -> None:
        self._over = True
        async with self._changing:
            for subscription in self._open.values():
                try:
                    await subscription.unsubscribe()
                except nats.errors.Error as error:
                    log.debug("a subscription ended with its connection: %s", error or type(error).__name__)
