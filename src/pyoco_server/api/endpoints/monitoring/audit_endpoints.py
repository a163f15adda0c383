"""Endpoints of the audit log."""

from pyoco_server.api import audit_types as audit
from pyoco_server.api.endpoints.endpoint import Endpoint
from pyoco_server.api.endpoints.endpoint_errors import LIST_ERRORS
from pyoco_server.api.endpoints.endpoint_scopes import AUDIT

LIST_AUDIT = Endpoint(
    "GET /audit",
    AUDIT,
    "The audit log: who cancelled, reran, paused, answered, uploaded and so on, the newest first.",
    audit.AuditPage,
    LIST_ERRORS,
    query=audit.AuditQuery,
)
