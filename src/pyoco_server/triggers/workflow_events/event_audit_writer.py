"""Writing audit rows. Of senders with a wrong token there is one row per sender and minute, with a count."""

import ipaddress
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.triggers.event_audit_store import EventAuditStore
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.records.ids import new_uuid, uuid_of
from pyoco_server.records.triggers.workflow_event_models import (
    WORKFLOW_EVENT,
    AuditRow,
    EventActor,
    EventDetails,
    EventStatus,
)
from pyoco_server.triggers.workflow_events.event_reasons import EventFailure

log = logging.getLogger(__name__)

MINUTE_SEC: Final = 60
# In one minute; the others share one row.
_MAX_SENDERS: Final = 100
_OTHERS: Final = "other senders"
_IPV6_SITE_BITS: Final = 64


def new_row(
    *,
    at: float,
    year: int,
    month: int,
    action: str,
    status: EventStatus,
    actor: EventActor,
    details: EventDetails,
    event_type: str = WORKFLOW_EVENT,
    row_id: str | None = None,
    run_id: str | None = None,
    tenant_id: str | None = None,
) -> AuditRow:
    """Without a valid month, that of `at` in UTC."""
    if not (year > 0 and 1 <= month <= 12):
        date = datetime.fromtimestamp(at, UTC)
        year, month = date.year, date.month
    return AuditRow(
        id=row_id or new_uuid(),
        at=at,
        year=year,
        month=month,
        event_type=event_type,
        action=action,
        status=status,
        actor=actor,
        source=details.source,
        run_id=run_id,
        tenant_id=tenant_id,
        details=details,
    )


@dataclass(slots=True)
class _RefusedSenders:
    row: AuditRow
    # How many of them the stored row knows.
    written: int = 0


class EventAuditWriter:
    """Also a source of the timekeeper: it writes the final counts of refused senders."""

    name = "refused senders"

    def __init__(self, connection: Connection, *, clock: Callable[[], float]) -> None:
        self._connection = connection
        # The tenant of a refused request is not known.
        self._tenant_id = connection.config.workflow_event_tenant or None
        self._store = EventAuditStore(connection)
        self._clock = clock
        self._wake: Callable[[], None] = lambda: None
        # Of this gateway: others count theirs.
        self._gateway = new_uuid()
        # By minute and sender.
        self._refused: dict[tuple[int, str], _RefusedSenders] = {}
        # How many rows could not be written.
        self.lost = 0

    def on_refused(self, wake: Callable[[], None]) -> None:
        """Register a callback: called when `run_due` has something to do."""
        self._wake = wake

    async def start(self) -> None:
        """Nothing runs until the first row."""

    async def close(self) -> None:
        """Write the counts of the minute that is not over."""
        await self.run_due(math.inf)

    async def publish(self, row: AuditRow) -> None:
        """NatsUnavailable if it could not be stored."""
        await self._store.publish(row)

    async def write(self, row: AuditRow) -> None:
        """The same, where nothing depends on it."""
        try:
            if not self._connection.ready:
                raise self._connection.unavailable()
            await self._store.publish(row)
        except NatsUnavailable as error:
            self.lost += 1
            extra = Err.NATS_UNAVAILABLE.log_fields(run_id=row.run_id)
            log.warning("an audit row is lost (%s, %s): %s", row.action, row.status, error, extra=extra)

    async def refused(self, reason: EventFailure, why: str, actor: EventActor) -> None:
        """A request with a wrong token; the first one of a sender in a minute is written at once."""
        now = self._clock()
        minute = int(now // MINUTE_SEC)
        sender = _sender(actor.ip)
        if (minute, sender) not in self._refused and self._senders_in(minute) >= _MAX_SENDERS:
            sender, actor = _OTHERS, EventActor(channel=actor.channel)
        known = self._refused.get((minute, sender))
        if known is not None:
            known.row.details.count += 1
            return
        details = EventDetails(
            reason=why,
            reason_class=reason.reason_class,
            reason_code=reason.code,
            retry_advice=reason.advice,
            duplicate=False,
        )
        row = new_row(
            at=now,
            year=0,
            month=0,
            action="workflow_event",
            status=reason.status,
            actor=actor,
            details=details,
            row_id=uuid_of("refused", self._gateway, sender, minute),
            tenant_id=self._tenant_id,
        )
        self._refused[minute, sender] = _RefusedSenders(row, written=1)
        self._wake()
        await self.write(row)

    async def run_due(self, now: float) -> float | None:
        """Write the counts of the minutes that are over."""
        for key in [key for key in self._refused if (key[0] + 1) * MINUTE_SEC <= now]:
            refused = self._refused.pop(key)
            if refused.row.details.count > refused.written:
                await self.write(refused.row)
        return min(((minute + 1) * float(MINUTE_SEC) for minute, _ in self._refused), default=None)

    def _senders_in(self, minute: int) -> int:
        return sum(1 for at, _ in self._refused if at == minute)


def _sender(ip: str | None) -> str:
    """The address; of IPv6 the network, since a sender has all of its addresses."""
    try:
        address = ipaddress.ip_address(ip or "")
    except ValueError:
        return ip or _OTHERS
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, _IPV6_SITE_BITS), strict=False))
