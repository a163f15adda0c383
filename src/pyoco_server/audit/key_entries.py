"""Entries of the audit log about API keys, which `pyoco-server-admin` changes without a gateway."""

import getpass
import os
import socket
import time

from pyoco_server.broker.stores.api_keys import ApiKeyRecord
from pyoco_server.records.ids import new_uuid
from pyoco_server.records.monitoring.audit_entry_models import AuditEntry, AuditOutcome, AuditTarget, AuditVia
from pyoco_server.records.waits.wait_models import Actor


def key_entry(action: str, record: ApiKeyRecord) -> AuditEntry:
    """What the user of this machine has done with the key; nothing of its secret."""
    entry_id = new_uuid()
    return AuditEntry(
        id=entry_id,
        at=time.time(),
        tenant_id=record.tenant_id,
        actor=Actor(name=f"{_user()}@{socket.gethostname()}"),
        via=AuditVia.ADMIN,
        action=action,
        target=AuditTarget(kind="key", id=record.key_id, name=record.name or None),
        outcome=AuditOutcome.ACCEPTED,
        status=0,
        request_id=entry_id,
        details={"scopes": [str(scope) for scope in record.scopes] or ["all"]},
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may have no entry for its user.
        return f"uid {os.getuid()}"
