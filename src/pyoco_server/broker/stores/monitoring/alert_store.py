"""Stored alerts: every write is a compare-and-set."""

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.triggers.keyed_records import KeyedRecords
from pyoco_server.records.monitoring.alert_models import AlertRecord, decode_alert
from pyoco_server.records.unreadable_records import RecordKind


class AlertStore(KeyedRecords[AlertRecord]):
    """The `pyoco_alerts` bucket."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, connection.config.alerts_kv_bucket, RecordKind.ALERT, decode_alert)
