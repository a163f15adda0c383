"""A subscription that survives the replacement of the NATS client."""

import asyncio
import logging

import nats.errors
from nats.aio.subscription import Subscription

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.direct_client import PublicClient
from pyoco_server.broker.client.message import MessageSink

log = logging.getLogger(__name__)


class RenewableSubscription:
    """nats-py restores subscriptions after a reconnect, but they end with their client.

    The connection replaces the client when nats-py gives it up. So `renew` has to be called after each
    connect: as a hook of the connection, or before each use.
    """

    def __init__(self, connection: Connection, sink: MessageSink, subject: str | None = None) -> None:
        """Without a `subject`, each new subscription has an inbox of its own."""
        self._connection = connection
        self._sink = sink
        self._fixed_subject = subject
        self._subscription: Subscription | None = None
        self._client: PublicClient | None = None
        # A caller and the hook of the connection may renew it at the same time.
        self._changing = asyncio.Lock()
        # Empty while there is no subscription.
        self.subject = ""

    async def renew(self) -> bool:
        """Subscribe unless the present client is subscribed; return whether this is a new subscription."""
        async with self._changing:
            client = self._connection.client
            if self._client is client:
                return False
            subject = self._fixed_subject or client.new_inbox()
            self._subscription = await self._connection.subscribe(subject, self._sink)
            self._client, self.subject = client, subject
            return True

    async def end(self, *, drain: bool = False) -> None:
        """Unsubscribe; with `drain` return when everything that the server has sent is received."""
        async with self._changing:
            subscription, self._subscription = self._subscription, None
            self._client, self.subject = None, ""
            if subscription is None:
                return
            try:
                await (subscription.drain() if drain else subscription.unsubscribe())  # type: ignore[no-untyped-call]
            except nats.errors.Error as error:
                log.debug("the subscription ended with its connection: %s", error or type(error).__name__)
