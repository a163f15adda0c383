"""Decides when alerts fire and are resolved: a source of the timekeeper, in every gateway.

Each decision is one compare-and-set of the alert's record, together with the messages that follow from it.
A gateway that lost the race finds the record changed, and decides nothing.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from pyoco_server.alerts.alert_directory import AlertDirectory
from pyoco_server.alerts.alert_transitions import AlertFinding, decided
from pyoco_server.alerts.condition_reader import ConditionReader
from pyoco_server.broker.stores.monitoring.alert_store import AlertStore
from pyoco_server.errors import IndexNotReady, NatsUnavailable
from pyoco_server.records.monitoring.alert_models import AlertRecord

log = logging.getLogger(__name__)

# Of the time of one processor, alerts take at most a tenth: with many of them, they are read less often.
_PAUSE_PER_WORK: Final = 9.0
# While the alerts are being read.
_NOT_READY_SEC: Final = 0.5


class AlertEvaluator:
    name = "alerts"

    def __init__(
        self,
        store: AlertStore,
        directory: AlertDirectory,
        conditions: ConditionReader,
        *,
        clock: Callable[[], float],
        interval_sec: float,
    ) -> None:
        self._store = store
        self._directory = directory
        self._conditions = conditions
        self._clock = clock
        self._interval_sec = interval_sec
        self._next_at = 0.0

    async def run_due(self, now: float) -> float | None:
        if not self._directory.ready:
            return now + _NOT_READY_SEC
        rows = self._directory.rows()
        if not rows:
            # The directory wakes the timekeeper when there are some.
            return None
        if now < self._next_at:
            # It was woken by a change; the next interval is early enough.
            return self._next_at
        # Not the time that passes: waiting for NATS or for a busy machine would delay the next evaluation.
        began = time.process_time()
        reading = self._conditions.begin()
        for row in rows:
            try:
                found = await reading.find(row.record, now)
                if decided(row.record, found, now) is not row.record:
                    await self._decide(row.record, found, now)
            except (NatsUnavailable, IndexNotReady):
                raise
            except Exception:
                # One alert that fails stops no other.
                log.exception("alert %s cannot be evaluated", row.record.key)
        used_sec = time.process_time() - began
        self._next_at = self._clock() + max(self._interval_sec, _PAUSE_PER_WORK * used_sec)
        return self._next_at

    async def _decide(self, record: AlertRecord, found: AlertFinding, now: float) -> None:
        written = await self._store.change_existing(record, lambda stored: decided(stored, found, now))
        if written is None:
            return
        self._directory.put(written)
        last = written.record.last
        if last is not None and now in (last.fired_at, last.resolved_at):
            done = "fired" if last.fired_at == now else "resolved"
            log.info("alert %s %s", record.alert_id, done, extra={"alert_id": record.alert_id})
