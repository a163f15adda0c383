"""Sends the messages of alerts that are due: a source of the timekeeper, in every gateway.

A gateway claims the messages of an alert by a compare-and-set, sends them, and stores what became of them.
When it is killed in between, the claim ends and any gateway sends them again, with the same id: a message is
delivered at least once.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyoco_server.alerts.alert_directory import AlertDirectory
from pyoco_server.alerts.alert_sender import AlertSender, SendAttempt
from pyoco_server.alerts.alert_transitions import MessageId, MessageResult, claimed, completed
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.monitoring.alert_store import AlertStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.notify.redelivery import OUTCOMES, backoff_sec
from pyoco_server.records.monitoring.alert_models import AlertOccurrence, AlertRecord

log = logging.getLogger(__name__)

# Alerts whose messages are sent concurrently, and those of one tenant, whose receivers may all hang.
_CONCURRENT: Final = 16
_CONCURRENT_OF_TENANT: Final = 8
# Added to the timeout of a message: for the writes before and after it.
_CLAIM_MARGIN_SEC: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Delivery:
    tenant_id: str | None
    task: asyncio.Task[None]


class AlertDeliverer:
    name = "alert messages"

    def __init__(
        self,
        config: NatsBackendConfig,
        store: AlertStore,
        directory: AlertDirectory,
        sender: AlertSender,
        *,
        clock: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        """`wake` has the timekeeper call `run_due`."""
        self._claim_sec = config.notify_timeout_sec + _CLAIM_MARGIN_SEC
        self._max_age_sec = config.notify_max_age_sec
        self._store = store
        self._directory = directory
        self._sender = sender
        self._clock = clock
        self._wake = wake
        # By key, the alerts whose messages are being sent.
        self._deliveries: dict[str, _Delivery] = {}
        # Why a delivery has failed since the last call; the timekeeper pauses after it.
        self._outage: BaseException | None = None
        # Of this gateway's attempts.
        self.outcomes: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))

    async def start(self) -> None:
        """The timekeeper calls `run_due`."""

    async def close(self) -> None:
        """Stop sending; the claims end, and other gateways send the messages again."""
        tasks = [delivery.task for delivery in self._deliveries.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def run_due(self, now: float) -> float | None:
        """Begin to send what is due. It does not wait: a receiver that hangs delays no other alert."""
        if self._outage is not None:
            outage, self._outage = self._outage, None
            raise outage
        times = [
            (at, row.record)
            for row in self._directory.rows()
            if (at := row.next_message_at) is not None and row.key not in self._deliveries
        ]
        due = [record for at, record in times if at <= now]
        # Several gateways begin with different ones.
        random.shuffle(due)
        for record in due:
            self._begin(record)
        # One for which there is no room begins when another one has ended.
        return min((at for at, _ in times if at > now), default=None)

    def _begin(self, record: AlertRecord) -> None:
        tenants = [delivery.tenant_id for delivery in self._deliveries.values()]
        if len(tenants) >= _CONCURRENT or tenants.count(record.tenant_id) >= _CONCURRENT_OF_TENANT:
            return
        task = asyncio.create_task(self._deliver(record.key))
        self._deliveries[record.key] = _Delivery(record.tenant_id, task)
        task.add_done_callback(partial(self._ended, record.key))

    def _ended(self, key: str, task: asyncio.Task[None]) -> None:
        del self._deliveries[key]
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._outage = error
            if not isinstance(error, NatsUnavailable):
                log.error("messages of alert %s cannot be sent", key, exc_info=error)
        self._wake()

    async def _deliver(self, key: str) -> None:
        """Send what is due of one alert, unless another gateway does."""
        stored = await self._store.get_from_leader(key)
        if stored is None:
            return
        now = self._clock()
        record, due = claimed(stored.record, now, until=now + self._claim_sec)
        if not due:
            self._directory.put(stored)
            return
        try:
            claim = await self._store.replace(stored, record)
        except RevisionConflict:
            newer = await self._store.get_from_leader(key)
            if newer is not None:
                self._directory.put(newer)
            return
        self._directory.put(claim)
        sent = await asyncio.gather(*(self._send(record, message) for message in due))
        results = dict(zip(due, sent, strict=True))
        written = await self._store.change_existing(record, lambda newer: completed(newer, results))
        if written is not None:
            self._directory.put(written)

    async def _send(self, record: AlertRecord, message: MessageId) -> MessageResult:
        occurrence = next(each for each in record.history if each.number == message.number)
        channel = record.channel(message.channel)
        if channel is None:
            return MessageResult(ok=False, error="the alert has no such channel any more")
        try:
            attempt = await self._sender.send(record, channel, occurrence, message.phase)
        except Exception as error:
            # One message must not stop the others, nor be sent for ever.
            log.exception("a message of alert %s cannot be sent", record.alert_id)
            attempt = SendAttempt(ok=False, error=f"unexpected error: {type(error).__name__}")
        if attempt.ok:
            self.outcomes["delivered"] += 1
            return MessageResult(ok=True)
        return self._failed(record, occurrence, message, attempt)

    def _failed(
        self, record: AlertRecord, occurrence: AlertOccurrence, message: MessageId, attempt: SendAttempt
    ) -> MessageResult:
        resolved = message.phase == "resolved"
        since = (occurrence.resolved_at if resolved else occurrence.fired_at) or occurrence.fired_at
        messages = occurrence.resolved if resolved else occurrence.fired
        attempts = next(each.attempts for each in messages if each.channel == message.channel)
        now = self._clock()
        fields = {"alert_id": record.alert_id, "channel": message.channel, "attempts": attempts}
        if attempt.is_final or now - since >= self._max_age_sec:
            self.outcomes["given_up"] += 1
            spec = Err.NOTIFICATION_FAILED
            extra = spec.log_fields(**fields)
            log.error("%s: alert %s: %s", spec.en, record.alert_id, attempt.error, extra=extra)
            return MessageResult(ok=False, error=attempt.error)
        self.outcomes["failed"] += 1
        pause_sec = backoff_sec(attempts)
        log.info("a message of alert %s is sent again: %s", record.alert_id, attempt.error, extra=fields)
        return MessageResult(ok=False, error=attempt.error, next_at=now + pause_sec)
