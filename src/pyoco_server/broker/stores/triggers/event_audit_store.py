"""Stored audit rows of workflow events. Entries of the audit log are in `audit_entry_store.py`.

A row that is published again under its id replaces the earlier one.
"""

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.records.ids import NO_TENANT
from pyoco_server.records.triggers.workflow_event_models import AuditRow, encode_record


class EventAuditStore:
    """The stream `PYOCO_AUDIT`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._prefix = connection.config.audit_subject_prefix

    async def publish(self, row: AuditRow) -> None:
        subject = f"{self._prefix}.{audit_key(row)}"
        await publish_acked(self._connection, subject, encode_record(row))


def audit_key(row: AuditRow) -> str:
    return f"{row.event_type}.{row.tenant_id or NO_TENANT}.{row.id}"
