"""Webhook notifications of waits that were opened, changed or closed (`PYOCO_NOTIFY_URL`,
`PYOCO_NOTIFY_TARGETS`).

All gateways consume one durable consumer of the stream of wait events. An event is sent until the receiver
accepts it, so it may be sent more than once, with the same id.

A webhook follows Standard Webhooks (headers `webhook-id`, `webhook-timestamp`, `webhook-signature`). Its body
says who is asked, and where; it has no schema, proposal, answer or note, which need the permission to read
waits.
"""

import asyncio
import logging
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyoco_server.aio.background import repeat
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.jetstream_api import ConsumerGone
from pyoco_server.broker.stores.waits.wait_event_queue import QueuedWaitEvent, WaitEventQueue
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.notify.redelivery import OUTCOMES, backoff_sec
from pyoco_server.records.waits.wait_models import Actor, WaitEvent, WaitEventKind, WaitRecord
from pyoco_server.waits.human.notify_targets import NotifyTargets

if TYPE_CHECKING:
    from pyoco_server.notify.webhook_client import WebhookClient

log = logging.getLogger(__name__)

# Everything but a refused attempt to answer.
NOTIFIED: Final = frozenset(WaitEventKind) - {WaitEventKind.REFUSED}

_CONCURRENT = 8
_RETRY_SEC = 0.5
# A worker of an earlier version publishes an event before it stores the wait. When it crashes in between, the
# next owner of the run stores the wait, after AckWait and the replay of the run. These deliveries take about
# ten minutes.
_DELIVERIES_WITHOUT_WAIT = 120
_MAX_RETRY_SEC = 5.0


def body_of(event: WaitEvent, wait: WaitRecord, public_url: str) -> bytes:
    by = event.actor or Actor()
    body: dict[str, Any] = {
        "event": {
            "id": event.event_id,
            "kind": event.kind,
            "at": event.at,
            "by": by.name,
            "on_behalf_of": by.on_behalf_of,
            "decision": event.decision,
        },
        "wait": {
            "wait_id": wait.wait_id,
            "task": wait.task,
            "name": wait.name,
            "message": wait.message,
            "assignees": wait.assignees,
            "arming": wait.arming,
            "created_at": wait.created_at,
            "deadline_at": wait.deadline_at,
            # As it is now: an event may be sent late.
            "state": wait.state,
            "decided_at": wait.decided_at,
        },
        "run": {
            "run_id": wait.run_id,
            "flow_name": wait.flow_name,
            "tag": wait.tag,
            "tenant_id": wait.tenant_id,
        },
        # The page of the dashboard; the same path without the `#` is the API.
        "link": f"{public_url.rstrip('/')}/#/waits/{wait.wait_id}" if public_url else None,
    }
    return msgspec.json.encode(body)


class Notifier:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._config = connection.config
        self._notices = WaitEventQueue(connection)
        self._waits = WaitStore(connection)
        self._targets = NotifyTargets(self._config)
        self._senders = asyncio.Semaphore(_CONCURRENT)
        self._work: asyncio.Task[None] | None = None
        # Of this gateway's attempts.
        self.outcomes: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))

    async def start(self) -> None:
        work = repeat("notifications", self._deliver_all) if self._targets else self._delete_consumer()
        self._work = asyncio.create_task(work, name="notifications")

    async def close(self) -> None:
        """Deliveries in flight are repeated by another gateway, or after the next start."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    async def _delete_consumer(self) -> None:
        """A receiver that is configured later must not get the events until then."""
        await self._connection.wait_ready()
        try:
            await self._notices.delete_consumer()
        except NatsUnavailable as error:
            log.info("the consumer of notifications is kept until the next start: %s", error)

    async def _deliver_all(self) -> None:
        from pyoco_server.notify.webhook_client import WebhookClient  # noqa: PLC0415 - httpx takes 5 MB

        webhooks = WebhookClient(self._config)
        try:
            async with asyncio.TaskGroup() as senders:
                while True:
                    await self._senders.acquire()
                    try:
                        notice = await self._next()
                    except BaseException:
                        self._senders.release()
                        raise
                    senders.create_task(self._deliver(webhooks, notice))
        finally:
            await self._notices.end_pull()
            await webhooks.close()

    async def _next(self) -> QueuedWaitEvent:
        """The next event; the consumer is created whenever it may be missing."""
        created = False
        while True:
            try:
                await self._connection.wait_ready()
                if not created:
                    await self._notices.ensure_consumer()
                    created = True
                if notice := await self._notices.next():
                    return notice
            except (NatsUnavailable, ConsumerGone) as error:
                log.debug("cannot read events of waits: %s", error)
                created = False
                await asyncio.sleep(_RETRY_SEC)

    async def _deliver(self, webhooks: "WebhookClient", notice: QueuedWaitEvent) -> None:
        try:
            if notice.event.kind in NOTIFIED:
                await self._post(webhooks, notice)
            else:
                await notice.delivery.ack()
        except NatsUnavailable as error:
            extra = {"run_id": notice.event.run_id}
            log.debug("event %s is redelivered after AckWait: %s", notice.event.event_id, error, extra=extra)
        except Exception:
            # One event must not stop the others.
            extra = {"run_id": notice.event.run_id}
            log.exception("event %s cannot be delivered", notice.event.event_id, extra=extra)
            await self._give_up(notice)
        finally:
            self._senders.release()

    async def _give_up(self, notice: QueuedWaitEvent) -> None:
        self.outcomes["given_up"] += 1
        with suppress(NatsUnavailable):
            await notice.delivery.term()

    async def _post(self, webhooks: "WebhookClient", notice: QueuedWaitEvent) -> None:
        event, delivery = notice.event, notice.delivery
        extra = {"run_id": event.run_id, "wait_id": event.wait_id}
        wait = await self._waits.find_from_leader(event.wait_id)
        if wait is None:
            if delivery.number < _DELIVERIES_WITHOUT_WAIT:
                await delivery.nak(min(_RETRY_SEC * delivery.number, _MAX_RETRY_SEC))
            else:
                log.info("the wait of event %s does not exist", event.event_id, extra=extra)
                await delivery.ack()
            return
        target, unknown = self._targets.target_of(wait.record, event.kind)
        if unknown is not None:
            log.warning(
                "PYOCO_NOTIFY_TARGETS has no receiver %r; the default one is used", unknown, extra=extra
            )
        if target is None:
            await delivery.ack()
            return
        body = body_of(event, wait.record, self._config.public_url)
        result, why = await webhooks.post(target, event.event_id, body)
        if result == "delivered":
            self.outcomes["delivered"] += 1
            await delivery.ack()
        elif result == "gone" or time.time() - event.at >= self._config.notify_max_age_sec:
            self.outcomes["given_up"] += 1
            self._log_given_up(notice, wait.record, why)
            await delivery.term()
        else:
            self.outcomes["failed"] += 1
            pause_sec = backoff_sec(delivery.number)
            log.info("event %s is sent again in %.1f s: %s", event.event_id, pause_sec, why, extra=extra)
            await delivery.nak(pause_sec)

    def _log_given_up(self, notice: QueuedWaitEvent, wait: WaitRecord, why: str) -> None:
        event, spec = notice.event, Err.NOTIFICATION_FAILED
        fields = spec.log_fields(run_id=wait.run_id, flow_name=wait.flow_name, tag=wait.tag)
        attempts = notice.delivery.number
        log.error("%s: event %s, %d attempts: %s", spec.en, event.event_id, attempts, why, extra=fields)
