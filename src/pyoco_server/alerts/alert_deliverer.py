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
from typing import Final

from pyoco_server.alerts.alert_directory import AlertDirectory
from pyoco_server.alerts.alert_sender import AlertSender, Sending
from pyoco_server.alerts.alert_transitions import MessageId, SendResult, claimed, completed
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.monitoring.alert_store import AlertStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.records.monitoring.alert_models import AlertOccurrence, AlertRecord
from pyoco_server.waits.human.notifications import OUTCOMES, backoff_sec

log = logging.getLogger(__name__)

# Alerts whose messages are sent concurrently.
_CONCURRENT: Final = 16
# Added to the timeout of a message: for the writes before and after it.
_CLAIM_MARGIN_SEC: Final = 5.0


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
    ) -> None:
        self._claim_sec = config.notify_timeout_sec + _CLAIM_MARGIN_SEC
        self._max_age_sec = config.notify_max_age_sec
        self._store = store
        self._directory = directory
        self._sender = sender
        self._clock = clock
        # Of this gateway's attempts.
        self.outcomes: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))

    async def run_due(self, now: float) -> float | None:
        times = {row.key: at for row in self._directory.rows() if (at := row.next_message_at) is not None}
        due = [key for key, at in times.items() if at <= now]
        # Several gateways begin with different ones.
        random.shuffle(due)
        results = await asyncio.gather(*map(self._deliver, due[:_CONCURRENT]), return_exceptions=True)
        for key, result in zip(due, results, strict=False):
            if isinstance(result, BaseException) and not isinstance(result, NatsUnavailable):
                log.error("messages of alert %s cannot be sent", key, exc_info=result)
        outages = [error for error in results if isinstance(error, BaseException)]
        if outages:
            raise outages[0]
        rows = self._directory.rows()
        return min((at for row in rows if (at := row.next_message_at) is not None), default=None)

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

    async def _send(self, record: AlertRecord, message: MessageId) -> SendResult:
        occurrence = next(each for each in record.history if each.number == message.number)
        channel = record.channel(message.channel)
        if channel is None:
            return SendResult(ok=False, error="the alert has no such channel any more")
        try:
            sending = await self._sender.send(record, channel, occurrence, message.phase)
        except Exception as error:
            # One message must not stop the others, nor be sent for ever.
            log.exception("a message of alert %s cannot be sent", record.alert_id)
            sending = Sending(ok=False, error=f"unexpected error: {type(error).__name__}")
        if sending.ok:
            self.outcomes["delivered"] += 1
            return SendResult(ok=True)
        return self._failed(record, occurrence, message, sending)

    def _failed(
        self, record: AlertRecord, occurrence: AlertOccurrence, message: MessageId, sending: Sending
    ) -> SendResult:
        resolved = message.phase == "resolved"
        since = (occurrence.resolved_at if resolved else occurrence.fired_at) or occurrence.fired_at
        messages = occurrence.resolved if resolved else occurrence.fired
        attempts = next(each.attempts for each in messages if each.channel == message.channel)
        now = self._clock()
        fields = {"alert_id": record.alert_id, "channel": message.channel, "attempts": attempts}
        if sending.is_final or now - since >= self._max_age_sec:
            self.outcomes["given_up"] += 1
            spec = Err.NOTIFICATION_FAILED
            extra = spec.log_fields(**fields)
            log.error("%s: alert %s: %s", spec.en, record.alert_id, sending.error, extra=extra)
            return SendResult(ok=False, error=sending.error)
        self.outcomes["failed"] += 1
        pause_sec = backoff_sec(attempts)
        log.info("a message of alert %s is sent again: %s", record.alert_id, sending.error, extra=fields)
        return SendResult(ok=False, error=sending.error, next_at=now + pause_sec)
