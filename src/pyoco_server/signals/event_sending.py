"""Sends events, which every matching run of the tenant receives."""

import logging
from collections.abc import Callable
from typing import Any

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.waits.sent_event_store import SentEventStore
from pyoco_server.records.ids import new_uuid
from pyoco_server.records.waits.signal_models import EventRecord
from pyoco_server.records.waits.wait_models import Actor

log = logging.getLogger(__name__)


class EventSender:
    def __init__(self, connection: Connection, *, clock: Callable[[], float]) -> None:
        """`clock` gives the `at` of an event; for which runs it counts follows from when it was stored."""
        self._clock = clock
        self._events = SentEventStore(connection)
        self.sent = 0

    async def send(
        self, name: str, data: Any, actor: Actor, *, event_id: str | None = None
    ) -> tuple[str, bool]:
        """Store an event: its id, and whether it is new.

        An event with the id of an earlier one of the same name is not stored, while that one is kept.
        """
        event = EventRecord(
            event_id=event_id or new_uuid(),
            name=name,
            at=self._clock(),
            data=data,
            tenant_id=actor.tenant_id,
            by=actor,
        )
        is_new = await self._events.publish(event)
        if is_new:
            self.sent += 1
        again = "" if is_new else " again, and is not stored"
        log.info("event %s (%s) was sent by %s%s", name, event.event_id, actor.label, again)
        return event.event_id, is_new
