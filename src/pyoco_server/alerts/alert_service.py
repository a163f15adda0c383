"""What people do with alerts: save, read, check, test, mute and delete them.

Each change is a compare-and-set on the record; one that lost the race is made again on the newer record.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from pyoco_server.alerts.alert_checks import AddressCheck, GivenAlert, checked_channels, checked_rule
from pyoco_server.alerts.alert_directory import AlertDirectory
from pyoco_server.alerts.alert_sender import AlertSender, SendAttempt
from pyoco_server.alerts.alert_transitions import AlertFinding, closed, muted
from pyoco_server.alerts.condition_reader import ConditionReader
from pyoco_server.broker.stores.keyed_records import Stored
from pyoco_server.broker.stores.monitoring.alert_store import AlertStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import AlertConflict, AlertNotFound, FieldProblem, InvalidRequest, shortened
from pyoco_server.records.monitoring.alert_models import (
    AlertChannel,
    AlertMute,
    AlertRecord,
    AlertRule,
    alert_key,
    is_alert_id,
)
from pyoco_server.runs.lifecycle.tenancy import Caller, hidden_from_others
from pyoco_server.triggers.secrets_at_rest import SecretBox

log = logging.getLogger(__name__)

# Of each tenant: every gateway has all of them in memory, and evaluates them.
MAX_ALERTS: Final = 200
# What a check of `run_failed` looks at.
_CHECKED_SEC: Final = 86_400.0

Change = Callable[[AlertRecord, float], AlertRecord]


@dataclass(frozen=True, slots=True)
class AlertName:
    """An alert as a caller names it; an operator may name one of another tenant."""

    alert_id: str
    caller: Caller
    tenant: str | None = None

    @property
    def key(self) -> str | None:
        """None: it cannot be the caller's, or cannot exist; it must not reach a NATS subject."""
        if not is_alert_id(self.alert_id):
            return None
        return self.caller.key_of(self.tenant, lambda owner: alert_key(owner, self.alert_id))

    @property
    def unknown(self) -> AlertNotFound:
        return AlertNotFound(f"there is no alert {self.alert_id!r}")


class AlertService:
    def __init__(
        self,
        config: NatsBackendConfig,
        store: AlertStore,
        directory: AlertDirectory,
        *,
        conditions: ConditionReader,
        sender: AlertSender,
        box: SecretBox,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._directory = directory
        self._conditions = conditions
        self._sender = sender
        self._box = box
        self._clock = clock
        self._refusal = AddressCheck(config.alert_networks)

    async def save(
        self, alert_id: str, caller: Caller, given: GivenAlert, *, revision: int | None
    ) -> AlertRecord:
        """Create the caller's alert, or replace its rule, channels and options; its history stays.

        InvalidRequest, NoSecretsKey and AlertConflict store nothing.
        """
        rule = checked_rule(given.rule)
        name = AlertName(alert_id, caller)
        key = name.key
        assert key is not None, "its form was checked"
        now = self._clock()
        await self._directory.caught_up()
        has_room = self._directory.count_of(caller.tenant_id) < MAX_ALERTS

        def make(found: AlertRecord | None) -> AlertRecord:
            if found is None:
                if revision is not None:
                    raise name.unknown
                if not has_room:
                    raise AlertConflict(f"there are {MAX_ALERTS} alerts already; delete one first")
                return self._new(alert_id, caller, given, rule, now)
            _check_revision(found, revision)
            channels = self._channels(given, found.channels)
            record = found if rule == found.rule else _with_rule(found, rule, now)
            changed = structs.replace(
                record,
                channels=channels,
                cool_down_sec=given.cool_down_sec,
                send_resolved=given.send_resolved,
                language=given.language,
                note=given.note,
            )
            return found if changed == found else _revised(changed, caller, now)

        with hidden_from_others(caller, name.unknown):
            written = await self._store.change(key, make)
        self._noticed(written, "saved")
        return written.record

    async def find(self, name: AlertName) -> AlertRecord:
        """As the leader knows it; AlertNotFound when there is none that the caller may see."""
        with hidden_from_others(name.caller, name.unknown):
            stored = None if name.key is None else await self._store.get_from_leader(name.key)
        if stored is None:
            raise name.unknown
        return stored.record

    async def check(self, caller: Caller, given: AlertRule) -> tuple[AlertRule, AlertFinding]:
        """Whether the condition is met now; nothing is stored or sent. InvalidRequest as for `save`."""
        rule = checked_rule(given)
        now = self._clock()
        record = AlertRecord(
            alert_id="check",
            incarnation="",
            tenant_id=caller.tenant_id,
            created_at=now,
            updated_at=now,
            rule=rule,
            channels=[],
            seen_at=now - _CHECKED_SEC,
        )
        return rule, await self._conditions.begin().find(record, now)

    async def send_test(self, name: AlertName, channel: str | None) -> dict[str, SendAttempt]:
        """Send a test message to this channel, or to all of them, now; what became of each."""
        record = await self.find(name)
        channels = [each for each in record.channels if channel in (None, each.name)]
        if not channels:
            known = ", ".join(each.name for each in record.channels)
            problem = FieldProblem("channel", f"expected one of {known}", shortened(channel))
            raise InvalidRequest(problems=[problem])

        async def send(each: AlertChannel) -> SendAttempt:
            return await self._sender.send(record, each, None, "test")

        results = await asyncio.gather(*map(send, channels))
        return {each.name: result for each, result in zip(channels, results, strict=True)}

    async def mute(self, name: AlertName, *, for_sec: float | None, note: str) -> AlertRecord:
        """Send nothing for this time, or until `unmute`; what fires meanwhile is kept."""

        def change(record: AlertRecord, now: float) -> AlertRecord:
            until = None if for_sec is None else now + for_sec
            by = name.caller.api_key_id if _is_own(record, name.caller) else None
            return muted(record, AlertMute(since=now, until=until, note=note, api_key_id=by))

        return await self._write(name, change, "muted")

    async def unmute(self, name: AlertName) -> AlertRecord:
        """If it still fires, its messages are sent then."""
        return await self._write(name, lambda record, _: structs.replace(record, mute=None), "unmuted")

    async def delete(self, name: AlertName, *, revision: int | None) -> None:
        """With its history; its messages that are pending are not sent."""
        key = (await self.find(name)).key
        stored = await self._store.remove(key, lambda record: _check_revision(_found(name, record), revision))
        assert stored is not None, "the check refuses that"
        self._directory.remove(stored)
        log.info("alert deleted", extra={"alert_id": name.alert_id})

    def _new(
        self, alert_id: str, caller: Caller, given: GivenAlert, rule: AlertRule, now: float
    ) -> AlertRecord:
        return AlertRecord(
            alert_id=alert_id,
            incarnation=secrets.token_hex(8),
            tenant_id=caller.tenant_id,
            api_key_id=caller.api_key_id,
            created_at=now,
            updated_at=now,
            rule=rule,
            channels=self._channels(given, []),
            cool_down_sec=given.cool_down_sec,
            send_resolved=given.send_resolved,
            language=given.language,
            note=given.note,
            seen_at=now,
        )

    def _channels(self, given: GivenAlert, stored: list[AlertChannel]) -> list[AlertChannel]:
        return checked_channels(
            given.channels, stored, self._box, has_mail=self._sender.mail.is_configured, refusal=self._refusal
        )

    async def _write(self, name: AlertName, change: Change, done: str) -> AlertRecord:
        key = (await self.find(name)).key

        def make(found: AlertRecord | None) -> AlertRecord:
            before, now = _found(name, found), self._clock()
            changed = change(before, now)
            return before if changed == before else _revised(changed, name.caller, now)

        written = await self._store.change(key, make)
        self._noticed(written, done)
        return written.record

    def _noticed(self, written: Stored[AlertRecord], done: str) -> None:
        self._directory.put(written)
        log.info("alert %s", done, extra={"alert_id": written.record.alert_id})


def _with_rule(record: AlertRecord, rule: AlertRule, now: float) -> AlertRecord:
    """It watches for something else from now on."""
    return structs.replace(closed(record, now), rule=rule, cursor=0, seen_at=now)


def _revised(record: AlertRecord, caller: Caller, now: float) -> AlertRecord:
    api_key_id = caller.api_key_id if _is_own(record, caller) else record.api_key_id
    return structs.replace(record, revision=record.revision + 1, updated_at=now, api_key_id=api_key_id)


def _is_own(record: AlertRecord, caller: Caller) -> bool:
    """Otherwise it is an operator, whose key the tenant does not see."""
    return caller.tenant_id == record.tenant_id


def _check_revision(record: AlertRecord, revision: int | None) -> None:
    if revision is not None and revision != record.revision:
        raise AlertConflict(f"the alert {record.alert_id!r} is at revision {record.revision}, not {revision}")


def _found(name: AlertName, record: AlertRecord | None) -> AlertRecord:
    """AlertNotFound if it was deleted meanwhile."""
    if record is None:
        raise name.unknown
    return record
