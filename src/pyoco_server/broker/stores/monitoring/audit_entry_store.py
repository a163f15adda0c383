"""Stored entries of the audit log. Audit rows of workflow events are in `event_audit_store.py`.

Entries are added, and removed by age and size only.
"""

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.records.ids import NO_TENANT
from pyoco_server.records.monitoring.audit_entry_models import AuditEntry
from pyoco_server.telemetry.key_redaction import redact_keys_in

_encode = msgspec.json.Encoder().encode


class AuditEntryStore:
    """The stream `PYOCO_AUDIT_LOG`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._prefix = connection.config.audit_log_subject_prefix

    async def publish(self, entry: AuditEntry) -> None:
        """NatsUnavailable if it could not be stored."""
        subject = f"{self._prefix}.{entry_key(entry)}"
        # Somebody may have written a key into a note.
        await publish_acked(self._connection, subject, redact_keys_in(_encode(entry)))


def entry_key(entry: AuditEntry) -> str:
    return f"{entry.tenant_id or NO_TENANT}.{entry.id}"
