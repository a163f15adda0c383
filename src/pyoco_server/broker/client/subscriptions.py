"""Subscriptions that are renewed with the connection, and the inbox of a consumer's deliveries."""

import asyncio
import logging

from nats.aio.subscription import Subscription

from pyoco_server.broker.client.connection import LOST_CONNECTION, Connection, ReplyStream
from pyoco_server.broker.client.direct_client import PublicClient
from pyoco_server.broker.client.message import Message, MessageSink

log = logging.getLogger(__name__)


class RenewableSubscription:
    """nats-py restores subscriptions after a reconnect, but they end with their client.

    The connection replaces the client when nats-py gives it up. So `renew` has to be called after each
    connect: in a callback of `on_connect`, or before each use.
    """

    def __init__(self, connection: Connection, sink: MessageSink, subject: str | None = None) -> None:
        """Without a `subject`, each new subscription has an inbox of its own."""
        self._connection = connection
        self._sink = sink
        self._fixed_subject = subject
        self._subscription: Subscription | None = None
        self._client: PublicClient | None = None
        # A caller and the callback of `on_connect` may renew it at the same time.
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
            except LOST_CONNECTION as error:
                log.debug("the subscription ended with its connection: %s", error or type(error).__name__)


class DeliveryInbox:
    """An inbox for the deliveries of a consumer, for one pull at a time."""

    def __init__(self, connection: Connection) -> None:
        self._subscription = RenewableSubscription(connection, self._on_message)
        self._replies: ReplyStream | None = None

    async def renew(self) -> None:
        await self._subscription.renew()

    async def end(self) -> None:
        self._replies = None
        await self._subscription.end()

    def receive(self, replies: ReplyStream) -> str:
        """Pass on what arrives from now on; returns the subject to deliver to."""
        self._replies = replies
        return self._subscription.subject

    def _on_message(self, message: Message) -> None:
        if self._replies is not None:
            self._replies.add(message)
