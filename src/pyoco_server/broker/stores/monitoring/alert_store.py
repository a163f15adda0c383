"""Stored alerts: every write is a compare-and-set."""

from collections.abc import Callable

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.keyed_records import KeyedRecords, Stored
from pyoco_server.records.monitoring.alert_models import AlertRecord, decode_alert
from pyoco_server.records.unreadable_records import RecordKind


class _Gone(Exception):
    """The alert was deleted meanwhile."""


class AlertStore(KeyedRecords[AlertRecord]):
    """The `pyoco_alerts` bucket."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, connection.config.alerts_kv_bucket, RecordKind.ALERT, decode_alert)

    async def change_existing(
        self, known: AlertRecord, change: Callable[[AlertRecord], AlertRecord]
    ) -> Stored[AlertRecord] | None:
        """Change this alert as it is now; None if it was deleted, also if there is a new one of its id."""

        def make(stored: AlertRecord | None) -> AlertRecord:
            if stored is None or stored.incarnation != known.incarnation:
                raise _Gone
            return change(stored)

        try:
            return await self.change(known.key, make)
        except _Gone:
            return None
