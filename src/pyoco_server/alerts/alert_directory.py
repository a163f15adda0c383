"""All alerts in memory, each with its last occurrence only; the feed of the bucket keeps them up to date."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from pyoco_server.alerts.alert_transitions import next_message_at
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.keyed_records import Stored
from pyoco_server.broker.stores.record_directory import RecordDirectory
from pyoco_server.records.monitoring.alert_models import ALERT_PREFIX, AlertRecord, decode_alert
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.runs.lifecycle.tenancy import visible_to


@dataclass(frozen=True, slots=True)
class AlertRow:
    # Without its earlier occurrences.
    record: AlertRecord
    # When a message of any occurrence is due; None: none is pending.
    next_message_at: float | None

    @property
    def key(self) -> str:
        return self.record.key


def row_of(record: AlertRecord) -> AlertRow:
    return AlertRow(structs.replace(record, history=record.history[-1:]), next_message_at(record))


class AlertDirectory:
    def __init__(self, connection: Connection) -> None:
        self._directory = RecordDirectory(connection, bucket=connection.config.alerts_kv_bucket, of="alerts")
        self._directory.follow(
            ALERT_PREFIX, RecordKind.ALERT, lambda data: row_of(decode_alert(data)), self._changed
        )
        self._on_changes: list[Callable[[], None]] = []
        self.start, self.close = self._directory.start, self._directory.close
        self.caught_up = self._directory.caught_up

    @property
    def ready(self) -> bool:
        return self._directory.ready

    def on_changes(self, callback: Callable[[], None]) -> None:
        """Register a callback: called whenever an alert is written or deleted."""
        self._on_changes.append(callback)

    def put(self, written: Stored[AlertRecord]) -> None:
        """This gateway has written it."""
        self._directory.put(row_of(written.record), written.revision)

    def remove(self, deleted: Stored[AlertRecord]) -> None:
        self._directory.remove(deleted.record.key, revision=deleted.revision)

    def rows(self) -> list[AlertRow]:
        rows: list[AlertRow] = self._directory.records(ALERT_PREFIX)
        return rows

    def alerts(self, tenant: str | None) -> list[AlertRecord]:
        """Those that a caller of this tenant (None: everybody) may see, by id."""
        visible = (row.record for row in self.rows() if visible_to(tenant, row.record.tenant_id))
        return sorted(visible, key=lambda record: (record.alert_id, record.key))

    def count_of(self, tenant_id: str | None) -> int:
        return sum(row.record.tenant_id == tenant_id for row in self.rows())

    def _changed(self, key: str, row: Any | None) -> None:
        for callback in self._on_changes:
            callback()
